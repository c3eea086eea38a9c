"""The adapter of kazoo's locks. Arguments: the connect string, the session timeout in milliseconds."""

import sys
from pathlib import Path

from adapter import say, serve
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import LockTimeout

sys.path.append(str(Path(__file__).resolve().parents[2] / "recipes/tests/interop"))
from curator_nodes import LOCKS

client = KazooClient(sys.argv[1], timeout=int(sys.argv[2]) / 1000)
state = KazooState.LOST
sessions = 0


def on_state(new):
    global state, sessions
    if state == KazooState.LOST and new == KazooState.CONNECTED:
        sessions += 1
        say("session", session=client.client_id[0])
    state = new


class Hold:
    def __init__(self, lock, session):
        self.session = session
        self.release = lock.release

    def life(self):
        if sessions != self.session or state == KazooState.LOST:
            return False
        return True if state == KazooState.CONNECTED else None


def acquire(kind, path, within):
    lock = LOCKS[kind](client, path)
    session = sessions
    try:
        acquired = lock.acquire(timeout=within) if within else lock.acquire(blocking=False)
    except LockTimeout:
        acquired = False
    return Hold(lock, session) if acquired else None


client.add_listener(on_state)
client.start(timeout=30)
serve("kazoo", list(LOCKS), acquire)
client.stop()
