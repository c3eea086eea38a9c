"""kazoo as a contender for the locks under test.

It prints `listening PORT` and serves loopback connections. Each connection is a contender of its own: a thread and a ZooKeeper
session, which ends with the connection. A request is one line of words, its answer one line; see README.md.
"""

import os
import socketserver
import time
from functools import partial

from curator_nodes import LOCKS
from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout
from kazoo.recipe.lock import Lock, ReadLock, WriteLock

RECIPES = {
    **LOCKS,
    # kazoo's own, told to wait for Curator's nodes too.
    "kazoo-lock": partial(Lock, extra_lock_patterns=("lock-",)),
    "kazoo-write": partial(WriteLock, extra_lock_patterns=("__WRIT__", "__READ__")),
    "kazoo-read": partial(ReadLock, extra_lock_patterns=("__WRIT__",)),
}
HALF_LEN = 10


class Contender(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        self.client = None
        self.locks = {}

    def handle(self):
        for line in self.rfile:
            try:
                answer = self.answer(*line.decode().split())
            except Exception as error:  # Whatever it is, the test that asked shall say so.
                answer = f"error {error!r}".replace("\n", " ")
            self.wfile.write(f"{answer}\n".encode())

    def finish(self):
        if self.client is not None:
            self.client.stop()
            self.client.close()
        super().finish()

    def answer(self, request, *words):
        return getattr(self, f"on_{request}")(*words)

    def on_connect(self, connect_string):
        self.client = KazooClient(connect_string)
        self.client.start(timeout=20)
        return "connected"

    def on_acquire(self, recipe, path):
        self.lock(recipe, path).acquire()
        return "acquired"

    def on_try(self, recipe, path, wait_ms):
        try:
            acquired = self.lock(recipe, path).acquire(timeout=int(wait_ms) / 1000)
        except LockTimeout:
            acquired = False
        return "acquired" if acquired else "timeout"

    def on_release(self, recipe, path):
        return "released" if self.lock(recipe, path).release() else "error not held"

    def on_increment(self, recipe, path, file, rounds):
        """Adds one to a counter of two equal halves, which a second writer would tear or overwrite."""
        counter = os.open(file, os.O_RDWR)
        try:
            for _ in range(int(rounds)):
                with self.lock(recipe, path):
                    value = read(counter) + 1
                    time.sleep(0)
                    write(counter, 0, value)
                    time.sleep(0)
                    write(counter, 1, value)
        finally:
            os.close(counter)
        return "incremented"

    def on_observe(self, recipe, path, file, rounds):
        counter = os.open(file, os.O_RDONLY)
        try:
            for _ in range(int(rounds)):
                with self.lock(recipe, path):
                    before = read(counter)
                    time.sleep(0)
                    after = read(counter)
                    if before != after:
                        raise RuntimeError(f"changed under a reader from {before} to {after}")
        finally:
            os.close(counter)
        return "observed"

    def lock(self, recipe, path):
        if (recipe, path) not in self.locks:
            self.locks[recipe, path] = RECIPES[recipe](self.client, path)
        return self.locks[recipe, path]


def read(counter):
    halves = os.pread(counter, 2 * HALF_LEN, 0)
    first, second = int(halves[:HALF_LEN]), int(halves[HALF_LEN:])
    if first != second:
        raise RuntimeError(f"torn: {first} and {second}")
    return first


def write(counter, half, value):
    os.pwrite(counter, b"%010d" % value, half * HALF_LEN)


class Server(socketserver.ThreadingTCPServer):
    # Contenders that still wait for a lock do not keep the process from ending.
    daemon_threads = True


if __name__ == "__main__":
    with Server(("127.0.0.1", 0), Contender) as server:
        print(f"listening {server.server_address[1]}", flush=True)
        server.serve_forever()
