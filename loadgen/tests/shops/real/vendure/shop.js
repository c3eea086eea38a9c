"use strict";
// Vendure with one product variant, a shipping method, and a payment method that always pays.
//
//   node shop.js --modules FOLDER --database postgres://… [--port 8000] [--stock 100] [--reject-shortfall]
//
// FOLDER has the node_modules with `@vendure/core`. The database must be empty: Vendure creates its tables there.

const fs = require("node:fs");
const path = require("node:path");
const { createRequire } = require("node:module");
const { parseArgs } = require("node:util");

const { values: options } = parseArgs({
    options: {
        modules: { type: "string" },
        database: { type: "string" },
        port: { type: "string", default: "8000" },
        stock: { type: "string", default: "100" },
        "reject-shortfall": { type: "boolean", default: false },
    },
});
if (!options.modules || !options.database) {
    console.error("shop.js: --modules FOLDER and --database URL are needed");
    process.exit(64);
}
// A test tells nobody that it ran.
process.env.VENDURE_DISABLE_TELEMETRY = "true";
const load = createRequire(path.resolve(options.modules, "package.json"));
const core = load("@vendure/core");
const { Populator } = load("@vendure/core/dist/data-import/providers/populator/populator");

const LANGUAGE = core.LanguageCode.en;
const INITIAL_DATA = {
    defaultLanguage: LANGUAGE,
    defaultZone: "Europe",
    countries: [{ name: "Austria", code: "AT", zone: "Europe" }],
    taxRates: [{ name: "Standard", percentage: 20 }],
    shippingMethods: [{ name: "Post", price: 500 }],
    paymentMethods: [
        {
            name: "Prepaid",
            handler: { code: core.dummyPaymentHandler.code, arguments: [{ name: "automaticSettle", value: "true" }] },
        },
    ],
    collections: [],
};

const config = {
    apiOptions: {
        hostname: "127.0.0.1",
        port: Number(options.port),
        adminApiPath: "admin-api",
        shopApiPath: "shop-api",
    },
    authOptions: {
        superadminCredentials: { identifier: "admin", password: "admin" },
        requireVerification: false,
    },
    dbConnectionOptions: {
        type: "postgres",
        url: options.database,
        synchronize: true,
        migrations: [],
        logging: false,
        poolSize: 20,
    },
    paymentOptions: { paymentMethodHandlers: [core.dummyPaymentHandler] },
    // The first line of standard output is the URL.
    logger: new core.DefaultLogger({ level: core.LogLevel.Error, timestamp: false }),
    plugins: [core.DefaultJobQueuePlugin, core.DefaultSchedulerPlugin.init()],
};

/** Creates what a sale needs. In an empty database, the variant and the shipping method get the number 1. */
async function populate(app) {
    await app.get(Populator).populateInitialData(INITIAL_DATA);
    const ctx = await app.get(core.RequestContextService).create({ apiType: "admin", languageCode: LANGUAGE });
    const product = await app.get(core.ProductService).create(ctx, {
        translations: [{ languageCode: LANGUAGE, name: "Ticket", slug: "ticket", description: "" }],
    });
    await app.get(core.ProductVariantService).create(ctx, [
        {
            productId: product.id,
            sku: "ticket",
            price: 1000,
            stockOnHand: Number(options.stock),
            trackInventory: "TRUE",
            translations: [{ languageCode: LANGUAGE, name: "Ticket" }],
        },
    ]);
}

/**
 * Cancels a purchase that gets too few units. An error of this handler rolls back the transaction of `addPaymentToOrder`,
 * so the buyer is told of an error, and neither the payment nor the order is kept.
 */
function rejectShortfalls(app) {
    app.get(core.EventBus).registerBlockingEventHandler({
        id: "reject-shortfall",
        event: core.StockShortfallEvent,
        handler: () => {
            throw new core.UserInputError("sold out");
        },
    });
}

/** Ends this process when standard input ends, if it is a pipe: the program at its other end is gone. */
function endWithInput() {
    const input = fs.fstatSync(0);
    if (input.isFIFO() || input.isSocket()) {
        process.stdin.on("end", () => process.exit()).resume();
    }
}

async function main() {
    endWithInput();
    const app = await core.bootstrap(config);
    await populate(app);
    if (options["reject-shortfall"]) {
        rejectShortfalls(app);
    }
    const server = app.getHttpServer();
    // A buyer's connection is idle until the sale begins. Closed meanwhile, it would fail the purchase.
    server.keepAliveTimeout = 120_000;
    console.log(`http://127.0.0.1:${server.address().port}`);
}

main();
