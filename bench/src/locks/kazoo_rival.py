"""The worker for kazoo's Lock: it does what the lines of its standard input ask for.

Every contender is a thread. It makes a lock object for every cycle, as `with client.Lock(path)` does, which is kazoo's best
case: an object that is used again lists the contenders once more, to look for a node that an earlier attempt may have left.
README.md lists the requests.
"""

import collections
import os
import platform
import sys
import threading
import time

import kazoo
from kazoo.client import KazooClient

SESSION_TIMEOUT_S = 30
CONNECT_WITHIN_S = 15
# How long the threads of contenders that were cut off may take to end.
END_WITHIN_S = 10
# The default is a multiple of what a contender needs, of whom there are thousands.
STACK_BYTES = 512 * 1024


class Contest:
    """The contenders of one lock, at work."""

    def __init__(self):
        self.clients = []
        self.contenders = []
        self.begun = 0
        self.finished = 0
        self.counting = threading.Lock()
        self.held = threading.Lock()
        self.times_us = None
        self.is_stopping = False
        self.is_cut_off = False
        self.failure = None

    def answer(self, request, *words):
        return getattr(self, f"on_{request}")(*words)

    def on_run(self, implementation, path, contenders, sessions, connect_string):
        if implementation != "kazoo":
            raise ValueError(f"unknown implementation: {implementation}")
        for _ in range(int(sessions)):
            client = KazooClient(connect_string, timeout=SESSION_TIMEOUT_S)
            self.clients.append(client)
            client.start(timeout=CONNECT_WITHIN_S)
        for i in range(int(contenders)):
            client = self.clients[i % len(self.clients)]
            self.contenders.append(threading.Thread(target=self.contend, args=(client, path), daemon=True))
        for contender in self.contenders:
            contender.start()
        return "running"

    def contend(self, client, path):
        with self.counting:
            self.begun += 1
        try:
            while not self.is_stopping:
                called = time.perf_counter_ns()
                lock = client.Lock(path)
                lock.acquire()
                if not self.held.acquire(blocking=False):
                    raise RuntimeError("two contenders held the lock at once")
                self.held.release()
                lock.release()
                elapsed_us = (time.perf_counter_ns() - called) // 1000
                with self.counting:
                    self.finished += 1
                    if self.times_us is not None:
                        self.times_us[elapsed_us] += 1
        except Exception as error:
            if not self.is_cut_off:
                self.failure = self.failure or error

    def check(self):
        """Fails once a contender has."""
        if self.failure is not None:
            raise self.failure

    def on_progress(self):
        self.check()
        with self.counting:
            return f"progress {self.begun} {self.finished}"

    def on_measure(self, window_ms):
        started = time.perf_counter_ns()
        with self.counting:
            self.times_us = collections.Counter()
        time.sleep(int(window_ms) / 1000)
        with self.counting:
            times_us, self.times_us = self.times_us, None
        elapsed_us = (time.perf_counter_ns() - started) // 1000
        self.check()
        return " ".join(["measured", str(elapsed_us)] + [f"{us}:{count}" for us, count in sorted(times_us.items())])

    def on_stop(self, within_ms):
        """Lets every contender finish its cycle, and tells how many had to be cut off."""
        self.is_stopping = True
        self.join(int(within_ms) / 1000)
        cut_off = self.alive()
        self.is_cut_off = True
        # Who waits for the lock is woken by the end of the session.
        for client in self.clients:
            client.stop()
            client.close()
        self.join(END_WITHIN_S)
        if self.alive() > 0:
            raise RuntimeError(f"{self.alive()} contenders did not end")
        self.check()
        return f"stopped {cut_off}"

    def join(self, within_s):
        deadline = time.monotonic() + within_s
        for contender in self.contenders:
            contender.join(max(0, deadline - time.monotonic()))

    def alive(self):
        return sum(contender.is_alive() for contender in self.contenders)


def main():
    # Whatever else prints does not get among the answers.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    sys.stdout = sys.stderr
    threading.stack_size(STACK_BYTES)
    print(f"ready kazoo {kazoo.__version__} on Python {platform.python_version()}", file=out, flush=True)
    contest = None
    for line in sys.stdin:
        words = line.split()
        try:
            if words[0] == "run":
                contest = Contest()
            answer = contest.answer(*words)
        except Exception as error:  # Whatever it is, the report shall say so.
            answer = f"error {error!r}".replace("\n", " ")
        print(answer, file=out, flush=True)


if __name__ == "__main__":
    main()
