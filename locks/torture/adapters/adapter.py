"""What an adapter in Python does with requests, and the loop of a hold. See src/lines.rs."""

import json
import sys
import threading
import time
from importlib.metadata import version
from queue import Empty, SimpleQueue

LOOK = 0.01
saying = threading.Lock()


def say(what, **answer):
    with saying:
        print(json.dumps({"is": what, **answer}), flush=True)


def serve(library, locks, acquire):
    """`acquire` takes the lock, its path and the seconds to wait. It returns None, or the hold: `life()` is None if nobody can tell."""
    say("ready", locks=locks, version=version(library))
    contenders = {}
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "acquire":
            contenders[request["id"]] = requests = SimpleQueue()
            threading.Thread(target=contend, args=(acquire, request, requests), daemon=True).start()
        elif request["id"] in contenders:
            contenders[request["id"]].put(request)


def contend(acquire, request, requests):
    def tell(what, **more):
        say(what, id=request["id"], **{"at": time.monotonic_ns(), **more})

    try:
        hold = acquire(request["lock"], request["paths"][0], request["within_ms"] / 1000)
    except Exception as error:
        return tell("failed", error=repr(error))
    if hold is None:
        return tell("failed")
    tell("acquired")
    is_lost = False
    while True:
        at = time.monotonic_ns()
        lives = None if is_lost else hold.life()
        if lives:
            tell("holding", at=at)
        elif lives is False:
            is_lost = True
            tell("lost")
        try:
            if requests.get(timeout=LOOK)["do"] == "release":
                break
        except Empty:
            pass
    try:
        hold.release()
    except Exception as error:
        return tell("released", error=repr(error))
    tell("released")
