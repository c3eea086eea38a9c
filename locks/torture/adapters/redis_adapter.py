"""The adapter of redis-py's lock. Arguments: host:port of Redis, the lifetime of a lock in milliseconds. See src/lines.rs."""

import json
import sys
import threading
import time
from queue import Empty, SimpleQueue

import redis
from redis.exceptions import LockError, RedisError

LOOK = 0.01
host, port = sys.argv[1].split(":")
lifetime = int(sys.argv[2]) / 1000
client = redis.Redis(host, int(port), socket_timeout=lifetime, socket_connect_timeout=lifetime)
saying = threading.Lock()


def say(**answer):
    with saying:
        print(json.dumps(answer), flush=True)


def contend(request, requests):
    number = request["id"]
    lock = client.lock(request["paths"][0], timeout=lifetime, sleep=0.02)
    try:
        within = request["within_ms"] / 1000
        acquired = lock.acquire(blocking=within > 0, blocking_timeout=within or None)
    except (RedisError, LockError) as error:
        return say(**{"is": "failed", "id": number, "at": time.monotonic_ns(), "error": repr(error)})
    if not acquired:
        return say(**{"is": "failed", "id": number, "at": time.monotonic_ns()})
    extended_at = time.monotonic()
    say(**{"is": "acquired", "id": number, "at": time.monotonic_ns()})
    is_lost = False
    while True:
        at = time.monotonic_ns()
        try:
            # A holder must extend the lifetime of its lock, and this lock tells nobody that it has ended.
            if time.monotonic() - extended_at > lifetime / 3 and not is_lost:
                lock.extend(lifetime, replace_ttl=True)
                extended_at = time.monotonic()
            owned = lock.owned()
        except LockError:
            owned = False
        except RedisError:
            owned = None
        if owned:
            say(**{"is": "holding", "id": number, "at": at})
        elif owned is False and not is_lost:
            is_lost = True
            say(**{"is": "lost", "id": number, "at": time.monotonic_ns()})
        try:
            if requests.get(timeout=LOOK)["do"] == "release":
                break
        except Empty:
            pass
    answer = {"is": "released", "id": number}
    try:
        lock.release()
    except (RedisError, LockError) as error:
        answer["error"] = repr(error)
    say(at=time.monotonic_ns(), **answer)


say(**{"is": "session"})
say(**{"is": "ready", "locks": ["mutex"]})
contenders = {}
for line in sys.stdin:
    request = json.loads(line)
    if request["do"] == "acquire":
        contenders[request["id"]] = requests = SimpleQueue()
        threading.Thread(target=contend, args=(request, requests), daemon=True).start()
    elif request["id"] in contenders:
        contenders[request["id"]].put(request)
