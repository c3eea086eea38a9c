"""A shop of forms, for browsers without scripts. It answers each form by a redirect to a page.

The status is 302 for a buyer that has a unit, for one that comes too late, and for one that has to log in first. With `--pages`
the status is 200, and the answer is the page. With `--wrong`, the shop reads the stock, then writes it, as shop.py does.
"""

from uuid import uuid4

from flask import Flask, redirect, request

from support import Database, Meeting, arguments, serve

parser = arguments(__doc__, wrong="read the stock, then write it")
parser.add_argument("--pages", action="store_true", help="answer a purchase by a page in place of a redirect")
args = parser.parse_args()
app = Flask(__name__)
database = Database(args.database)
meeting = Meeting(args.meet)


def page(title):
    return f"<!doctype html><title>Form shop</title><h1>{title}</h1>"


def leads_to(path):
    return show(path) if args.pages else redirect(f"/{path}?from=buy")


@app.get("/<path:path>")
def show(path):
    name = path.rpartition("/")[2]
    return page({"thanks": "Thank you", "sold-out": "Sold out"}.get(name, name))


@app.post("/login")
def log_in():
    answer = redirect("/shop")
    answer.set_cookie("buyer", request.form["buyer"])
    return answer


@app.post("/buy")
def buy():
    buyer = request.cookies.get("buyer")
    if buyer is None:
        return redirect("/login?next=/buy")
    with database.transaction() as execute:
        if args.wrong:
            left = execute("select stock from goods").fetchone()[0]
            meeting.wait()
            is_sold = left > 0
            if is_sold:
                execute("update goods set stock = ?", left - 1)
        else:
            is_sold = execute("update goods set stock = stock - 1 where stock > 0").rowcount == 1
        if is_sold:
            order = uuid4().hex
            execute("insert into orders (order_id, buyer) values (?, ?)", order, buyer)
    return leads_to(f"orders/{order}/thanks") if is_sold else leads_to("sold-out")


@app.post("/reset")
def reset():
    meeting.begin()
    database.begin_sale(args.stock)
    return {"stock": args.stock}


@app.get("/stock")
def stock():
    return {"stock": database.stock()}


@app.get("/orders")
def orders():
    return database.orders()


reset()
serve(app, args.port)
