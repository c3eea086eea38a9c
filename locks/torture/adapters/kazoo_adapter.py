"""The adapter of kazoo's locks. Arguments: the connect string, the session timeout in milliseconds. See src/lines.rs."""

import json
import sys
import threading
import time
from queue import Empty, SimpleQueue

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import LockTimeout
from kazoo.recipe.lock import Lock

LOOK = 0.01


# kazoo's own locks have other node names than Curator's, and each side ignores the other's. These queue with Curator's.
class Mutex(Lock):
    _NODE_NAME = "lock-"
    _EXCLUDE_NAMES = ["lock-"]


class Write(Lock):
    _NODE_NAME = "__WRIT__"
    _EXCLUDE_NAMES = ["__WRIT__", "__READ__"]


class Read(Lock):
    _NODE_NAME = "__READ__"
    _EXCLUDE_NAMES = ["__WRIT__"]


LOCKS = {"mutex": Mutex, "write": Write, "read": Read}
client = KazooClient(sys.argv[1], timeout=int(sys.argv[2]) / 1000)
saying = threading.Lock()
state = KazooState.LOST
sessions = 0


def say(**answer):
    with saying:
        print(json.dumps(answer), flush=True)


def on_state(new):
    global state, sessions
    if state == KazooState.LOST and new == KazooState.CONNECTED:
        sessions += 1
        say(**{"is": "session", "session": client.client_id[0]})
    state = new


def contend(request, requests):
    number = request["id"]
    lock = LOCKS[request["lock"]](client, request["paths"][0])
    session = sessions
    try:
        within = request["within_ms"] / 1000
        acquired = lock.acquire(timeout=within) if within else lock.acquire(blocking=False)
    except LockTimeout:
        acquired = False
    except Exception as error:
        return say(**{"is": "failed", "id": number, "at": time.monotonic_ns(), "error": repr(error)})
    if not acquired:
        return say(**{"is": "failed", "id": number, "at": time.monotonic_ns()})
    say(**{"is": "acquired", "id": number, "at": time.monotonic_ns()})
    is_lost = False
    while True:
        at = time.monotonic_ns()
        if sessions != session or state == KazooState.LOST:
            if not is_lost:
                say(**{"is": "lost", "id": number, "at": time.monotonic_ns()})
            is_lost = True
        elif state == KazooState.CONNECTED:
            say(**{"is": "holding", "id": number, "at": at})
        try:
            if requests.get(timeout=LOOK)["do"] == "release":
                break
        except Empty:
            pass
    answer = {"is": "released", "id": number}
    try:
        lock.release()
    except Exception as error:
        answer["error"] = repr(error)
    say(at=time.monotonic_ns(), **answer)


client.add_listener(on_state)
client.start(timeout=30)
say(**{"is": "ready", "locks": list(LOCKS)})
contenders = {}
for line in sys.stdin:
    request = json.loads(line)
    if request["do"] == "acquire":
        contenders[request["id"]] = requests = SimpleQueue()
        threading.Thread(target=contend, args=(request, requests), daemon=True).start()
    elif request["id"] in contenders:
        contenders[request["id"]].put(request)
client.stop()
