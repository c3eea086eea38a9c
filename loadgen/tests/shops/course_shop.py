"""A shop as the courses on flash sales (seckill) write it.

Buyers log in and send their token in the header `authorization`. Each answer has status 200, and
`{"success": …, "data": …, "errorMsg": …}` tells the rest. A purchase is queued: its answer is a ticket, with which the buyer
polls `GET /orders/TICKET`. Each buyer may have one order. With `--wrong`, the shop keeps neither this limit nor the stock.
"""

from queue import Queue
from threading import Thread
from uuid import uuid4

from flask import Flask, request

from support import Database, Meeting, arguments, serve

SOLD_OUT = "库存不足"  # Not enough stock.
TWICE = "不能重复下单"  # No second order.
NOT_LOGGED_IN = "请先登录"  # Log in first.
UNKNOWN_ORDER = "订单不存在"  # No such order.

args = arguments(__doc__, wrong="oversell, and let a buyer buy twice").parse_args()
app = Flask(__name__)
app.json.ensure_ascii = False
database = Database(args.database)
meeting = Meeting(args.meet)
tickets = Queue()
buyers = {}  # By their tokens.
results = {}  # By the tickets.
is_sold_out = False


def ok(data):
    return {"success": True, "data": data, "errorMsg": None}


def fail(message):
    return {"success": False, "data": None, "errorMsg": message}


@app.post("/user/login")
def log_in():
    token = uuid4().hex
    buyers[token] = request.form["phone"]
    return ok(token)


@app.post("/reset")
def reset():
    global is_sold_out
    tickets.join()
    results.clear()
    is_sold_out = False
    meeting.begin()
    database.begin_sale(args.stock)
    return ok(args.stock)


@app.post("/voucher-order/seckill/<int:voucher>")
def buy(voucher):
    buyer = buyers.get(request.headers.get("authorization"))
    if buyer is None:
        return fail(NOT_LOGGED_IN)
    if is_sold_out:
        return fail(SOLD_OUT)
    ticket = uuid4().hex
    results[ticket] = ok({"status": "queued"})
    tickets.put((ticket, buyer))
    return ok(ticket)


@app.get("/orders/<ticket>")
def order(ticket):
    return results.get(ticket) or fail(UNKNOWN_ORDER)


class Refused(Exception):
    """Undoes a purchase. Its text is for the buyer."""


def sell(execute, ticket, buyer):
    # The index `one_per_buyer` makes it a conflict.
    if execute("insert into orders (order_id, buyer) values (?, ?) on conflict do nothing", ticket, buyer).rowcount == 0:
        raise Refused(TWICE)
    if execute("update goods set stock = stock - 1 where stock > 0").rowcount == 0:
        raise Refused(SOLD_OUT)


def sell_wrongly(execute, ticket, buyer):
    # Many copies of one course have this mistake: it looks for the number of the order among the buyers.
    if execute("select count(*) from orders where buyer = ?", ticket).fetchone()[0] > 0:
        raise Refused(TWICE)
    left = execute("select stock from goods").fetchone()[0]
    meeting.wait()
    if left <= 0:
        raise Refused(SOLD_OUT)
    execute("update goods set stock = ?", left - 1)
    execute("insert into orders (order_id, buyer) values (?, ?)", ticket, buyer)


def write_orders():
    global is_sold_out
    while True:
        ticket, buyer = tickets.get()
        try:
            with database.transaction() as execute:
                (sell_wrongly if args.wrong else sell)(execute, ticket, buyer)
            results[ticket] = ok({"status": "sold", "orderId": ticket})
        except Refused as refused:
            is_sold_out |= str(refused) == SOLD_OUT
            results[ticket] = fail(str(refused))
        tickets.task_done()


@app.get("/stock")
def stock():
    return ok({"stock": database.stock()})


@app.get("/orders")
def orders():
    return ok(database.orders())


reset()
with database.transaction() as execute:
    if args.wrong:
        execute("drop index if exists one_per_buyer")
    else:
        execute("create unique index if not exists one_per_buyer on orders (buyer)")
for _ in range(2):
    Thread(target=write_orders, daemon=True).start()
serve(app, args.port)
