# Purchases at a shop: {{ head.shop }}. The load: {{ head.described }}.
# Written by `loadgen export locust --shop`.
#
# This file neither puts the stock on sale nor reads the books. Before each run, and after it:
#   loadgen judge --shop SHOP --put-on-sale before.json
#   loadgen judge purchases-*.csv --shop SHOP --before before.json --users {{ head.users }}
#
# Run it. START_AT is the instant at which the sale begins, by the clock of this machine. Buyers sign up before it:
#   START_AT=$(date -u -d '+20 seconds' +%FT%TZ) locust -f {{ file|safe }} --headless -u {{ head.users }} -r {{ head.users }}
#
# Several machines with synchronised clocks: one master, and a worker on each. All have the same START_AT and WORKERS:
#   START_AT=… WORKERS=2 locust -f {{ file|safe }} --headless -u {{ head.users }} -r {{ head.users }} --master --expect-workers 2
#   START_AT=… WORKERS=2 locust -f {{ file|safe }} --worker --master-host MASTER
# Each worker has the same number of buyers, so USERS is a multiple of WORKERS. No two workers have a buyer of the same number. The run
# ends when all buyers are through. Keep the files of all workers.
#
# Settings, each a variable of the environment:
#   START_AT     common start, as 2026-11-27T12:00:00Z{% if head.start_at.is_empty() %}; a run without it ends at once{% endif %}
#   USERS        number of users, each a buyer; -u and -r get the same number
#   WORKERS      number of workers; 1 without a master
#   TRIAL        number of the trial, for the results
#   RESULTS      beginning of the name of the file of results
{%- if head.pace.ramp_up_ms > 0 %}
#   RAMP_UP_MS   milliseconds from the first start of a buyer to the last one
{%- endif %}
{%- if head.pace.duration_ms > 0 %}
#   DURATION_MS  milliseconds in which purchases start
{%- endif %}
{%- if head.pace.has_rate() %}
#   RATE         purchases per second of all workers
{%- endif %}
{%- if !head.csv.is_empty() %}
#   BUYERS       CSV file with a line for each buyer
{%- endif %}
{%- if head.has_certificate %}
#   CERTIFICATE  PEM file with the certificate that the shop's own is signed by
{%- endif %}
{%- for variable in head.variables %}
#   {{ variable }}: a secret of the shop file, which is not written here
{%- endfor %}
#
# Results: a file purchases-WORKER.csv of each worker, with a line for each purchase. Instants are nanoseconds since 1970. A purchase
# lasts from its first request to its last answer. A run replaces the files of an earlier one.
# - A buyer whose last purchase lasts too long makes the next one late. The intended instant stays.
{%- if head.pace.has_rate() %}
# - Arrivals are evenly spaced, and buyers take them in turns.
{%- endif %}

import csv
import itertools
import json
import os
import re
import sys
import time
from datetime import datetime
from urllib.parse import quote, urljoin, urlsplit

import gevent
from locust import HttpUser, events, task
from locust.exception import StopUser
from locust.runners import MasterRunner, WorkerRunner

# What a buyer does. A number that an answer must have is a text that begins with U+0000.
SHOP = json.loads(r'''{{ description|safe }}''')

START_AT = os.environ.get("START_AT") or '{{ head.start_at }}'
USERS = int(os.environ.get("USERS") or {{ head.users }})
WORKERS = int(os.environ.get("WORKERS") or 1)
TRIAL = os.environ.get("TRIAL", "")
RESULTS = os.environ.get("RESULTS") or "purchases"
RAMP_UP_MS = float(os.environ.get("RAMP_UP_MS") or {{ head.pace.ramp_up_ms }})
DURATION_MS = float(os.environ.get("DURATION_MS") or {{ head.pace.duration_ms }})
RATE = float(os.environ.get("RATE") or {{ head.pace.rate_per_s }})
# Of a longer body, only the beginning is searched for a text, and none is read as JSON.
BODY_MAX = 1024 * 1024
REDIRECTS_MAX = 10
BOUNDARY = "loadgen-form-7d9f2c51"
COLUMNS = ["trial", "shop", "intended_ns", "started_ns", "duration_ns", "outcome", "status", "buyer", "order"]
DONE = "loadgen-done"


def start_ns():
    """Returns the common start, in nanoseconds since 1970."""
    try:
        start = datetime.fromisoformat(START_AT.replace("Z", "+00:00"))
        seconds = start.timestamp() if start.tzinfo else None
    except ValueError:
        seconds = None
    if seconds is None:
        sys.exit(f'START_AT is "{START_AT}", and the start is an instant such as 2026-11-27T12:00:00Z; set START_AT')
    if seconds <= time.time():
        sys.exit(f"the start {START_AT} is over; set START_AT to an instant ahead, with time for the sign-ups")
    return round(seconds * 1000) * 1_000_000


START_NS = start_ns()
for variable in SHOP["variables"]:
    if not os.environ.get(variable):
        sys.exit(f"the environment has no variable {variable}; set it, as in: export {variable}=…")
if USERS % WORKERS != 0:
    sys.exit(f"{USERS} users cannot be divided among {WORKERS} workers; set USERS to a multiple of WORKERS, and -u and -r too")
{%- if !head.csv.is_empty() %}
with open(os.environ.get("BUYERS") or '{{ head.csv }}', encoding="utf-8-sig", newline="") as people:
    PEOPLE = list(csv.reader(people))[1:]
if len(PEOPLE) < USERS:
    sys.exit(f"the file of the buyers has {len(PEOPLE)} of them, and the load has {USERS}; add lines to it, or set fewer USERS")
{%- endif %}


class Results:
    """The file of a worker, and the number of its buyers."""

    def __init__(self):
        self.file = None
        self.writer = None
        self.numbers = itertools.count()
        self.through = 0

    def write(self, worker, row):
        if self.writer is None:
            self.file = open(f"{RESULTS}-{worker}.csv", "w", encoding="utf-8", newline="")
            self.writer = csv.writer(self.file, lineterminator="\n")
            self.writer.writerow(COLUMNS)
        self.writer.writerow(row)

    def end(self, runner):
        """Notes that a buyer is through. After the last one, the run ends."""
        self.through += 1
        if self.through < USERS // WORKERS:
            return
        if self.file:
            self.file.close()
        if isinstance(runner, WorkerRunner):
            runner.send_message(DONE)
        else:
            gevent.spawn(runner.quit)


RESULTS_OF_WORKER = Results()


def fail(environment, trouble):
    """Ends the run, on the master too."""
    print(trouble, file=sys.stderr, flush=True)
    environment.process_exit_code = 1
    if isinstance(environment.runner, WorkerRunner):
        environment.runner.send_message(DONE, trouble)
    else:
        gevent.spawn(environment.runner.quit)


@events.init.add_listener
def end_with_the_last_worker(environment, **_):
    runner = environment.runner
    if not isinstance(runner, MasterRunner):
        return
    through = set()

    def note(environment, msg, **_):
        through.add(msg.node_id)
        if msg.data:
            fail(environment, msg.data)
        elif len(through) == WORKERS:
            gevent.spawn(runner.quit)

    runner.register_message(DONE, note)


def due_ms(number, turn):
    """Returns when a buyer makes its next purchase, in milliseconds from the start, or None if it makes no more."""
    if RATE > 0:
        due = 1000 * (turn * USERS + number) / RATE
        return due if due < DURATION_MS else None
    if turn == 0:
        return RAMP_UP_MS * number / max(USERS - 1, 1)
    now = (time.time_ns() - START_NS) / 1e6
    return now if now < DURATION_MS else None


{% include "shop/locustfile/answers.py" %}

def origin_of(url):
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def filled(request, values):
    """Returns a request with its values. Raises KeyError if one is missing."""

    def plain(text):
        return re.sub(r"\{\{(.+?)\}\}", lambda name: values[name[1]], text)

    def part_of_url(name):
        # A value at the beginning is the address of the shop. A later one stays one part of the URL.
        return values[name[1]] if name.start() == 0 else quote(values[name[1]], safe="")

    def quoted(text):
        return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")

    url = re.sub(r"\{\{(.+?)\}\}", part_of_url, request["url"])
    headers = {"accept-encoding": "identity"}
    cookie = ""
    for name, text in request["headers"]:
        if name == "cookie":
            cookie += ";" + plain(text)
        else:
            headers[name] = f"{headers[name]}, {plain(text)}" if name in headers else plain(text)
    body = None if request["text"] is None else plain(request["text"]).encode()
    if request["form"] is not None:
        headers["content-type"] = f"multipart/form-data; boundary={BOUNDARY}"
        body = ""
        for part in request["form"]:
            body += f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{quoted(part["name"])}"'
            if part["fileName"] is not None:
                body += f'; filename="{quoted(part["fileName"])}"'
            if part["mime"] is not None:
                body += f'\r\nContent-Type: {part["mime"]}'
            body += f'\r\n\r\n{plain(part["value"])}\r\n'
        body = f"{body}--{BOUNDARY}--\r\n".encode()
    headers = {name: value.encode() for name, value in headers.items()}
    return {"method": request["method"], "url": url, "headers": headers, "cookie": cookie, "body": body}


class Buyer(HttpUser):
    host = SHOP["urls"][0]

    def on_start(self):
        self.client.trust_env = False
{%- if head.has_certificate %}
        self.client.verify = os.environ.get("CERTIFICATE", "ca.pem")
{%- endif %}
        runner = self.environment.runner
        self.worker = max(getattr(runner, "worker_index", 0), 0)
        self.number = next(RESULTS_OF_WORKER.numbers) * WORKERS + self.worker
        if self.number >= USERS:
            raise StopUser
        self.values = {"url": SHOP["urls"][self.number % len(SHOP["urls"])], "number": str(self.number)}
        self.values.update((f"env.{name}", os.environ[name]) for name in SHOP["variables"])
{%- if !head.csv.is_empty() %}
        self.values.update(zip(SHOP["columns"], PEOPLE[self.number]))
{%- endif %}
        self.status = 0
        trouble = self.sign_up()
        if trouble:
            fail(self.environment, f"buyer {self.number} could not sign up: {trouble}")
            raise StopUser

    def sign_up(self):
        """Signs the buyer up. Returns what went wrong."""
        steps = SHOP["signUp"]
        for request in steps["requests"]:
            answer = self.ask(request, steps["take"])
            if not answer.is_success:
                return f'{request["at"]}: answered {answer.status} {answer.failure}'
        absent = next((name for name, _ in steps["take"] if name not in self.values), None)
        return absent and f"no answer has {absent}"

    @task
    def buy(self):
        for turn in itertools.count():
            due = due_ms(self.number, turn)
            if due is None:
                break
            intended_ns = START_NS + round(due * 1e6)
            time.sleep(max(intended_ns - time.time_ns(), 0) / 1e9)
            self.purchase(intended_ns)
        RESULTS_OF_WORKER.end(self.environment.runner)
        raise StopUser

    def purchase(self, intended_ns):
        """Buys once, and notes it."""
        self.values.pop("order", None)
        self.status = 0
        started_ns = time.time_ns()
        started = time.perf_counter_ns()
        outcome = self.decide()
        duration_ns = time.perf_counter_ns() - started
        order = self.values.get("order", "") if outcome == "sold" else ""
        row = [TRIAL, SHOP["name"], intended_ns, started_ns, duration_ns, outcome, self.status, self.number, order]
        RESULTS_OF_WORKER.write(self.worker, row)
        if self.status == 0:
            # Without the pause, users would ask a stopped shop thousands of times per second.
            time.sleep(0.01)

    def decide(self):
        """Buys, and asks for the outcome if the shop queues the buyer.

        Returns sold, sold_out, over_limit, refused, error or timeout.
        """
        meaning, answer = self.through(SHOP["buy"])
        self.note_order(answer)
        if meaning != "queued":
            return meaning
        poll = SHOP["outcome"]
        if not poll:
            return "error"
        deadline = time.monotonic() + poll["withinMs"] / 1000
        while meaning == "queued":
            left = deadline - time.monotonic()
            time.sleep(max(min(poll["everyMs"] / 1000, left), 0))
            if left <= poll["everyMs"] / 1000:
                return "timeout"
            meaning, answer = self.through(poll)
        if meaning == "sold":
            self.note_order(answer)
        return meaning

    def note_order(self, answer):
        """Notes the number of the order, unless it is known."""
        order = SHOP["order"] and answer.value(SHOP["order"])
        if order is not None:
            self.values.setdefault("order", order)

    def through(self, steps):
        """Sends the requests of a section until an answer decides."""
        answer = Answer()
        for request in steps["requests"]:
            answer = self.ask(request, steps["take"])
            if answer.failure:
                return "timeout" if answer.failure == "timeout" else "error", answer
            meaning = meaning_of(answer, request is steps["requests"][-1])
            if meaning:
                return meaning, answer
            if not answer.is_success:
                break
        return "error", answer

    def ask(self, request, take):
        """Sends a request, follows its redirects if it wants that, and takes values from every answer."""
        due = time.monotonic() + request["withinMs"] / 1000
        try:
            following = filled(request, self.values)
        except KeyError as missing:
            self.status = 0
            return Answer(failure=f"nothing gives {missing}")
        for _ in range(REDIRECTS_MAX + 1):
            answer = self.send(following, due - time.monotonic())
            for name, source in take:
                value = answer.value(source)
                if value is not None:
                    self.values[name] = value
            location = answer.header("location")
            is_redirect = location and answer.status in (301, 302, 303, 307, 308)
            if answer.failure or not is_redirect:
                return answer
            try:
                url = urljoin(following["url"], location)
                is_here = origin_of(url) == origin_of(following["url"])
            except ValueError:
                is_here = False
            if not request["follows"]:
                # By such a redirect, a form answers that it was taken.
                answer.is_success = is_here and answer.status in (302, 303)
                return answer
            if not is_here:
                answer.failure = "redirected to another address"
                return answer
            is_post = following["method"] == "POST" and answer.status in (301, 302)
            if is_post or (answer.status == 303 and following["method"] != "HEAD"):
                headers = {name: value for name, value in following["headers"].items() if name != "content-type"}
                following = {**following, "method": "GET", "body": None, "headers": headers}
            following = {**following, "url": url}
        return Answer(failure="too many redirects")

    def send(self, request, within_s):
        """Sends one request."""
        timeout = gevent.Timeout(max(within_s, 0.001))
        options = {"name": "request", "catch_response": True, "allow_redirects": False, "timeout": max(within_s, 0.001)}
        pairs = (pair.partition("=") for pair in request["cookie"].split(";"))
        kept = {cookie.name for cookie in self.client.cookies}
        cookies = {name.strip(): value.strip() for name, equals, value in pairs if equals and name.strip() not in kept}
        self.status = 0
        try:
            with timeout:
                with self.client.request(
                    request["method"], request["url"], headers=request["headers"], data=request["body"], cookies=cookies, **options
                ) as response:
                    if response.status_code:
                        response.success()
                        self.status = response.status_code
                        found = response.raw.headers.items() if response.raw else response.headers.items()
                        headers = [(name.lower(), value) for name, value in found]
                        body = response.content.decode("utf-8", "replace")
                        return Answer(response.status_code, body, headers)
                    error = response.error
        except gevent.Timeout as over:
            if over is not timeout:
                raise
            return Answer(failure="timeout")
        return Answer(failure="timeout" if "Timeout" in type(error).__name__ else f"no answer: {error}")
