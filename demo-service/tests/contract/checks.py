"""What the checks of schemathesis cannot see from the document alone."""

import schemathesis

# Kinds of 422 that depend on more than the form of a request.
BEYOND_FORM = {"buyer-unclear", "guard-mismatch", "idempotency-key-reused", "one-at-a-time", "repeated-goods"}


@schemathesis.check
def well_formed_requests_are_not_called_malformed(ctx, response, case):
    """A request that matches the document is refused for its meaning only."""
    if case.meta.generation.mode.is_positive and response.status_code == 422:
        kind = response.json()["type"].removeprefix("urn:seckill-lab:problem:")
        assert kind in BEYOND_FORM, f"a request of the documented form was refused as {kind}"


@schemathesis.check
def every_answer_names_its_request(ctx, response, case):
    """The header is there, once, and a problem names the same request."""
    ids = response.headers.get("x-request-id", [])
    assert len(ids) == 1, f"x-request-id is {ids}"
    if response.headers.get("content-type") == ["application/problem+json"]:
        assert response.json()["instance"] == f"urn:seckill-lab:request:{ids[0]}"


@schemathesis.check
def only_documented_kinds_of_503(ctx, response, case):
    """Nothing is down and nobody is paused here, so the service may be busy and nothing else."""
    if response.status_code == 503:
        kind = response.json()["type"].removeprefix("urn:seckill-lab:problem:")
        assert kind in {"lock-timeout", "overtaken", "overloaded", "sale-restarted"}, f"503 {kind} without an outage"
