"""The adapter of redis-py's lock. Arguments: host:port of Redis, the lifetime of a lock in milliseconds."""

import sys
import time

import redis
from adapter import say, serve
from redis.exceptions import LockError, RedisError

host, port = sys.argv[1].split(":")
lifetime = int(sys.argv[2]) / 1000
client = redis.Redis(host, int(port), socket_timeout=lifetime, socket_connect_timeout=lifetime)


class Hold:
    def __init__(self, lock):
        self.lock = lock
        self.release = lock.release
        self.extended_at = time.monotonic()

    def life(self):
        try:
            # A holder must extend the lifetime of its lock, and this lock tells nobody that it has ended.
            if time.monotonic() - self.extended_at > lifetime / 3:
                self.lock.extend(lifetime, replace_ttl=True)
                self.extended_at = time.monotonic()
            return bool(self.lock.owned())
        except LockError:
            return False
        except RedisError:
            return None


def acquire(_kind, path, within):
    lock = client.lock(path, timeout=lifetime, sleep=0.02)
    return Hold(lock) if lock.acquire(blocking=within > 0, blocking_timeout=within or None) else None


say("session")
serve("redis", ["mutex"], acquire)
