"""A shop that says "sold" before the order exists: a queue writes the orders later, and loses some of them.

It counts the stock in memory and never oversells. With `--loses 0.05`, one of twenty orders is lost: the writer fails, and
goes on with the next order. The buyer was told "sold", and the unit stays in the database. With `--loses 0` it is right.
"""

from fractions import Fraction
from queue import Queue
from threading import Lock, Thread
from time import monotonic, sleep
from uuid import uuid4

from flask import Flask, request

from support import Database, arguments, serve

parser = arguments(__doc__)
parser.add_argument("--loses", type=Fraction, default="0", help="the share of orders that are lost, as 0.05")
parser.add_argument("--delay-ms", type=int, default=0, help="time from the answer to the order")
args = parser.parse_args()
app = Flask(__name__)
database = Database(args.database)
waiting = Queue()
lock = Lock()
sold = 0


@app.post("/reset")
def reset():
    global sold
    waiting.join()
    database.begin_sale(args.stock)
    sold = 0
    return {"stock": args.stock}


@app.post("/buy")
def buy():
    global sold
    with lock:
        if sold == args.stock:
            return {"error": "sold out"}, 409
        sold += 1
        number = sold
    order = uuid4().hex
    waiting.put((monotonic() + args.delay_ms / 1000, number, order, request.form.get("buyer")))
    return {"order": order}, 201


def is_lost(number):
    # Not random, so that each sale of the same size loses the same number of orders.
    return int(number * args.loses) > int((number - 1) * args.loses)


def write_orders():
    while True:
        due, number, order, buyer = waiting.get()
        sleep(max(0, due - monotonic()))
        if not is_lost(number):
            with database.transaction() as execute:
                execute("update goods set stock = stock - 1")
                execute("insert into orders (order_id, buyer) values (?, ?)", order, buyer)
        waiting.task_done()


@app.get("/stock")
def stock():
    return {"stock": database.stock()}


@app.get("/orders")
def orders():
    return database.orders()


reset()
Thread(target=write_orders, daemon=True).start()
serve(app, args.port)
