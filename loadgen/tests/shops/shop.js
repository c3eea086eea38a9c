"use strict";
// A shop with its stock in memory, in two processes behind one port.
//
// Each process has a copy of the stock, so the shop sells the stock twice. With --halves, each has a half of it: the shop
// never oversells, but it may tell a buyer "sold out" while the other half has units. With --one-process it is right.

const cluster = require("node:cluster");
const fs = require("node:fs");
const http = require("node:http");
const { parseArgs } = require("node:util");

const { values: options } = parseArgs({
    options: {
        port: { type: "string", default: "8000" },
        stock: { type: "string", default: "100" },
        halves: { type: "boolean", default: false },
        "one-process": { type: "boolean", default: false },
    },
});
const STOCK = Number(options.stock);
const PROCESSES = options["one-process"] ? 1 : 2;

/** Returns the units that a process sells. */
function unitsOf(number) {
    return options.halves ? Math.floor((STOCK + number) / PROCESSES) : STOCK;
}

/** The orders of all processes. The first process has them, and the others ask it. */
const book = {
    last: 0,
    orders: [],
    left: new Map(),

    write({ buyer, left }, number) {
        book.last += 1;
        book.orders.push({ order: book.last, buyer });
        book.left.set(number, left);
        return book.last;
    },

    list() {
        return { count: book.orders.length, orders: book.orders };
    },

    stock() {
        const left = [...book.left.values()];
        return options.halves ? left.reduce((sum, one) => sum + one) : Math.min(...left);
    },

    async reset() {
        await Promise.all(sellers.map((seller) => seller.begin()));
        book.begin();
        return STOCK;
    },

    begin() {
        book.orders = [];
        sellers.forEach((_, number) => book.left.set(number, unitsOf(number)));
    },
};

/** The processes that sell, as the first process knows them. */
let sellers = [];

/** Serves buyers. `ask(name, value)` asks the book. Returns a function that begins a sale. */
function sell(number, ask) {
    let left = unitsOf(number);
    const pages = {
        "POST /buy": async (form) => {
            if (left === 0) {
                return [409, { error: "sold out" }];
            }
            left -= 1;
            return [201, { order: await ask("write", { buyer: form.get("buyer"), left }) }];
        },
        "POST /reset": async () => [200, { stock: await ask("reset") }],
        "GET /stock": async () => [200, { stock: await ask("stock") }],
        "GET /orders": async () => [200, await ask("list")],
    };
    const server = http.createServer(async (request, response) => {
        let body = "";
        for await (const part of request) {
            body += part;
        }
        const page = pages[`${request.method} ${request.url}`];
        const [status, value] = page ? await page(new URLSearchParams(body)) : [404, { error: "no such page" }];
        response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
    });
    // A connection is idle between two sales. Closed meanwhile, it would fail the next request.
    server.keepAliveTimeout = 120_000;
    server.listen(Number(options.port), "127.0.0.1", 1024, () => {
        if (!cluster.isWorker) {
            tellPort(server.address().port);
        }
    });
    return () => {
        left = unitsOf(number);
    };
}

function tellPort(port) {
    console.log(`http://127.0.0.1:${port}`);
}

/** A process that sells. It is told when a sale begins, and may ask the book. */
class Seller {
    constructor(number) {
        this.worker = cluster.fork({ NUMBER: number });
        this.worker.on("message", async ({ id, name, value }) => {
            if (name === "begun") {
                this.begun();
            } else {
                this.worker.send({ id, answer: await book[name](value, number) });
            }
        });
    }

    begin() {
        this.worker.send({ begin: true });
        return new Promise((resolve) => {
            this.begun = resolve;
        });
    }
}

function runSeller() {
    const asked = new Map();
    let last = 0;
    const ask = (name, value) => {
        last += 1;
        process.send({ id: last, name, value });
        return new Promise((resolve) => asked.set(last, resolve));
    };
    const begin = sell(Number(process.env.NUMBER), ask);
    process.on("message", ({ id, answer, begin: begins }) => {
        if (begins) {
            begin();
            process.send({ name: "begun" });
        } else {
            asked.get(id)(answer);
            asked.delete(id);
        }
    });
}

function runFirst() {
    sellers = Array.from({ length: PROCESSES }, (_, number) => new Seller(number));
    book.begin();
    let listening = 0;
    cluster.on("listening", (_, { port }) => {
        listening += 1;
        if (listening === PROCESSES) {
            tellPort(port);
        }
    });
    endWithInput(() => {
        cluster.on("exit", () => {
            if (sellers.every(({ worker }) => worker.isDead())) {
                process.exit();
            }
        });
        sellers.forEach(({ worker }) => worker.process.kill("SIGKILL"));
    });
}

function runAlone() {
    const begin = sell(0, async (name, value) => book[name](value, 0));
    sellers = [{ begin }];
    book.begin();
    endWithInput(() => process.exit());
}

/** Calls `end` when standard input ends, if it is a pipe: the program at its other end is gone. */
function endWithInput(end) {
    const input = fs.fstatSync(0);
    if (input.isFIFO() || input.isSocket()) {
        process.stdin.on("end", end).resume();
    }
}

if (cluster.isWorker) {
    runSeller();
} else if (PROCESSES === 1) {
    runAlone();
} else {
    runFirst();
}
