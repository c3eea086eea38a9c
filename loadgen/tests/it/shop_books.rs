//! `loadgen check` reads the databases of other people's shops.

use std::fs;

use crate::shops::ShopProcess;
use crate::support::{Finished, TestFolder, finish};

/// Starts a shop in Python with 10 units and the database `shop.db` of this folder.
fn start(program: &str, folder: &TestFolder) -> ShopProcess {
    let database = folder.path("shop.db");
    ShopProcess::start(program, &["--stock", "10", "--database", database.to_str().unwrap()])
}

/// Tries a shop file of `tests/shops` with these replacements, in this folder.
fn dry_run(folder: &TestFolder, shop: &ShopProcess, file: &str, replacements: &[(&str, &str)]) -> Finished {
    let replacements = [&[("stock = 100", "stock = 10")], replacements].concat();
    fs::write(folder.path("shop.toml"), shop.file(file, &replacements)).unwrap();
    finish(&mut folder.loadgen(["check", "--dry-run", "shop.toml"]))
}

fn assert_shown(finished: &Finished, expected: &[&str]) {
    assert_eq!(finished.code, Some(0), "{}{}", finished.stdout, finished.stderr);
    for expected in expected {
        assert!(finished.stdout.contains(expected), "{expected}\n{}", finished.stdout);
    }
}

#[test]
fn the_books_of_a_shop_on_sqlite_are_read_as_its_file_says() {
    for (program, file) in [("shop.py", "shop.toml"), ("course_shop.py", "course_shop.toml")] {
        let folder = TestFolder::new();
        let shop = start(program, &folder);
        let expected = [
            "the database says: 10 units left after [sale]\n",
            "the database says: 9 units left after the purchase\n",
            "the database says: 1 order of 1 unit\n",
        ];
        assert_shown(&dry_run(&folder, &shop, file, &[]), &expected);
    }
    let folder = TestFolder::new();
    let shop = start("early_shop.py", &folder);
    // Its order comes later.
    assert_shown(
        &dry_run(&folder, &shop, "early_shop.toml", &[]),
        &["the database says: 10 units left after [sale]\n"],
    );
}

#[test]
fn statements_put_the_stock_of_a_shop_on_sqlite_on_sale() {
    let folder = TestFolder::new();
    let shop = start("shop.py", &folder);
    let reset = "requests = [\"curl -X POST {{url}}/reset\"]";
    let sql =
        "sql = { url = \"sqlite:shop.db\", statements = [\"delete from orders\", \"update goods set stock = 5\"] }";
    let finished = dry_run(&folder, &shop, "shop.toml", &[(reset, sql)]);
    let runs = format!("runs at sqlite:{}: delete from orders; update goods", folder.path("shop.db").display());
    let left = "the database says: 5 units left after [sale], and 10 should be\n";
    assert_shown(&finished, &[&runs, left, "the database says: 4 units left after the purchase, and 9 should be\n"]);
}

#[test]
fn a_database_file_that_is_missing_is_named_and_not_made() {
    let folder = TestFolder::new();
    let shop = start("shop.py", &folder);
    let finished = dry_run(&folder, &shop, "shop.toml", &[("sqlite:shop.db", "sqlite:other.db")]);
    let expected = format!("error: could not connect to sqlite:{}: ", folder.path("other.db").display());
    finished.assert_error(3, &expected);
    assert!(finished.stderr.contains("there is no such file; start the shop"), "{}", finished.stderr);
    assert!(!folder.path("other.db").exists());
}
