"""A shop as a reader would write it: Flask in front of SQLite or Postgres.

One conditional `update` decides each purchase. With `--wrong`, the shop reads the stock, checks it and writes it back. Two
buyers can read the same stock, and then both are sold the same unit.
"""

from uuid import uuid4

from flask import Flask, request

from support import Database, Meeting, arguments, serve

args = arguments(__doc__, wrong="read the stock, then write it").parse_args()
app = Flask(__name__)
database = Database(args.database)
meeting = Meeting(args.meet)


@app.post("/reset")
def reset():
    meeting.begin()
    database.begin_sale(args.stock)
    return {"stock": args.stock}


@app.post("/buy")
def buy():
    with database.transaction() as execute:
        if args.wrong:
            left = execute("select stock from goods").fetchone()[0]
            meeting.wait()
            is_sold = left > 0
            if is_sold:
                execute("update goods set stock = ?", left - 1)
        else:
            is_sold = execute("update goods set stock = stock - 1 where stock > 0").rowcount == 1
        if not is_sold:
            return {"error": "sold out"}, 409
        order = uuid4().hex
        execute("insert into orders (order_id, buyer) values (?, ?)", order, request.form.get("buyer"))
    return {"order": order}, 201


@app.get("/stock")
def stock():
    return {"stock": database.stock()}


@app.get("/orders")
def orders():
    return database.orders()


reset()
serve(app, args.port)
