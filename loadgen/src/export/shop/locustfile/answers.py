class Answer:
    """An answer. `failure` says why there is none."""

    def __init__(self, status=0, body="", headers=None, failure=""):
        self.status = status
        self.body = body
        # Pairs of a name in small letters and a value.
        self.headers = headers or []
        self.failure = failure
        # Whether it lets the buyer go on, if it decides nothing.
        self.is_success = 200 <= status <= 299

    def header(self, name):
        return next((value for found, value in self.headers if found == name), None)

    def has_header(self, name, part):
        return any(part in value for found, value in self.headers if found == name)

    def has_text(self, part):
        """Tells whether the beginning of the body contains a text."""
        return part.encode() in self.body.encode()[:BODY_MAX]

    def cookie(self, name):
        pairs = (value.split(";")[0].partition("=") for found, value in self.headers if found == "set-cookie")
        values = [value.strip() for found, equals, value in pairs if equals and found.strip() == name]
        return (values[-1] or None) if values else None

    def json(self):
        """Returns the JSON, or None. Each number is a text that begins with U+0000, as floats round large numbers."""
        if len(self.body) > BODY_MAX:
            return None
        try:
            mark = "\0{}".format
            # `int` refuses Infinity and NaN, which are no JSON.
            return json.loads(self.body, parse_int=mark, parse_float=mark, parse_constant=int)
        except ValueError:
            return None

    def value(self, source):
        """Returns the value at a source, or None."""
        if "header" in source:
            return self.header(source["header"])
        if "cookie" in source:
            return self.cookie(source["cookie"])
        found = walk(self.json(), source["path"])
        if isinstance(found, bool):
            return "true" if found else "false"
        return found.removeprefix("\0") if isinstance(found, str) else None


ABSENT = object()


def walk(document, path):
    """Returns the value at a path of names and indices, or ABSENT."""
    value = document
    for step in path:
        if isinstance(step, str):
            value = value.get(step, ABSENT) if isinstance(value, dict) else ABSENT
        else:
            is_there = isinstance(value, list) and -len(value) <= step < len(value)
            value = value[step] if is_there else ABSENT
    return value


def is_same(found, wanted):
    """Tells whether two values are equal. 1 and 1.0 are."""

    def is_number(value):
        return isinstance(value, str) and value.startswith("\0")

    if is_number(found) and is_number(wanted):
        is_whole = all(re.fullmatch("-?[0-9]+", value[1:]) for value in (found, wanted))
        return found == wanted if is_whole else float(found[1:]) == float(wanted[1:])
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(is_same, found, wanted))
    if isinstance(found, dict) and isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(is_same(found[name], wanted[name]) for name in found)
    return type(found) is type(wanted) and found == wanted


def is_match(pattern, answer):
    if pattern["statuses"] and answer.status not in pattern["statuses"]:
        return False
    if not all(answer.has_header(name, part) for name, part in pattern["headers"]):
        return False
    if pattern["text"] is not None and not answer.has_text(pattern["text"]):
        return False
    return not pattern["values"] or all(is_same(walk(answer.json(), path), wanted) for path, wanted in pattern["values"])


def meaning_of(answer, is_last):
    """Returns what an answer means, or None. An earlier answer can only mean sold out or refused."""
    for meaning, patterns in SHOP["meanings"]:
        if is_last or meaning in ("sold_out", "over_limit", "refused"):
            if any(is_match(pattern, answer) for pattern in patterns):
                return meaning
    return None
