"""What the shops in Python share: arguments, a database, a port, and a way to make a mistake certain."""

import os
import sqlite3
import stat
import sys
import threading
from argparse import ArgumentParser
from contextlib import contextmanager

from psycopg_pool import ConnectionPool
from waitress import create_server

from parent import end_with_input

# More than the buyers of a test. A buyer that waits for another one occupies a thread.
THREADS = 256
CONNECTIONS_MAX = 4 * THREADS
# Time for the second of two buyers. A lone buyer, as in a dry run, has to wait this long.
MEET_WITHIN_S = 5


def arguments(description, wrong=None):
    """Returns the arguments that every shop has. `wrong` says what the shop does with `--wrong`, if it has that."""
    parser = ArgumentParser(description=description)
    parser.add_argument("--port", type=int, default=8000, help="0 takes any free one; the first line of output has its URL")
    parser.add_argument("--stock", type=int, default=100, help="units of each sale")
    parser.add_argument("--database", default="shop.db", help="a file of SQLite, or the URL of an empty Postgres database")
    if wrong:
        parser.add_argument("--wrong", action="store_true", help=wrong)
        parser.add_argument("--meet", action="store_true", help="with --wrong: the first two buyers read the same stock")
    return parser


class Database:
    """The tables of a shop in SQLite or Postgres."""

    def __init__(self, name):
        self.name = name
        self.pool = None
        if name.startswith(("postgres://", "postgresql://")):
            self.pool = ConnectionPool(name, min_size=1, max_size=20, open=True)
        else:
            # SQLite deletes its log with the last connection. One is kept, so that this is not done for each buyer.
            self.kept = sqlite3.connect(name)
            self.kept.execute("pragma journal_mode = wal")
        with self.transaction() as execute:
            execute("create table if not exists goods (stock integer not null)")
            execute("create table if not exists orders (order_id varchar(32) primary key, buyer varchar(64))")

    @contextmanager
    def transaction(self):
        """Gives a function that executes SQL. The transaction is rolled back if an exception leaves the block."""
        if self.pool:
            with self.pool.connection() as connection:
                yield lambda sql, *values: connection.execute(sql.replace("?", "%s"), values)
            return
        connection = sqlite3.connect(self.name, timeout=30)
        # A commit need not reach the disk at once: the sale outlives its process, and need not outlive the machine.
        connection.execute("pragma synchronous = normal")
        try:
            with connection:
                yield lambda sql, *values: connection.execute(sql, values)
        finally:
            connection.close()

    def begin_sale(self, stock):
        with self.transaction() as execute:
            execute("delete from orders")
            execute("delete from goods")
            execute("insert into goods values (?)", stock)

    def stock(self):
        with self.transaction() as execute:
            return execute("select stock from goods").fetchone()[0]

    def orders(self):
        with self.transaction() as execute:
            rows = execute("select order_id, buyer from orders").fetchall()
        return {"count": len(rows), "orders": [{"order": order, "buyer": buyer} for order, buyer in rows]}


class Meeting:
    """Lets the first two buyers of a sale wait for each other after they have read the stock.

    Nobody has written it by then, so both have read the same number.
    """

    def __init__(self, is_wanted):
        self.is_wanted = is_wanted
        self.begin()

    def begin(self):
        """Begins a sale."""
        self.barrier = threading.Barrier(2)
        self.awaited = threading.Semaphore(2 if self.is_wanted else 0)

    def wait(self):
        if self.awaited.acquire(blocking=False):
            try:
                self.barrier.wait(MEET_WITHIN_S)
            except threading.BrokenBarrierError:
                pass  # No second buyer came.


def serve(app, port):
    """Serves until the process ends. If standard input is a pipe, its end ends the process."""
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        threading.Thread(target=end_with_input, daemon=True).start()
    limits = {"threads": THREADS, "connection_limit": CONNECTIONS_MAX, "asyncore_use_poll": True}
    server = create_server(app, host="127.0.0.1", port=port, **limits)
    print(f"http://127.0.0.1:{server.effective_port}", flush=True)
    server.run()
