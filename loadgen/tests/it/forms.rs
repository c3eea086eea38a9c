//! `loadgen check` at a shop of forms, which answers by redirects or by pages of one status.

use std::fs;

use crate::checked::{assert_ends_with, check_process_with, run_script};
use crate::shops::{ShopProcess, start_on_sqlite};
use crate::support::{Finished, TestFolder, finish};

const THANKS: &str = "sold = [{ status = 302, header = { location = \"/thanks\" } }]";

/// The file of a shop that answers by pages.
const BY_TEXT: [(&str, &str); 3] = [
    (THANKS, "sold = [{ status = 200, text = \"Thank you\" }]"),
    ("status = 302, header = { location = \"/sold-out\" }", "status = 200, text = \"Sold out\""),
    ("order = \"header:location\"\n", ""),
];

// C42
#[test]
fn a_form_shop_is_judged_by_its_redirects() {
    for (args, code) in [("", 0), ("--wrong --meet", 2)] {
        let folder = TestFolder::new();
        let shop = start_on_sqlite("form_shop.py", &folder, args);
        let finished = check_process_with(&folder, &shop, "form_shop.toml", &[]);
        assert_ends_with(&finished, code);
        if code == 2 {
            let (code, told) = run_script(&folder, "report/reproduction/form_shop.sh", "3");
            assert_eq!(code, Some(1), "{told}");
            assert!(told.contains("WRONG: the stock fell by 1, and 2 were sold"), "{told}");
        }
    }
}

// C42
#[test]
fn a_shop_that_answers_200_by_pages_is_judged_by_their_text() {
    for (args, code) in [("--pages", 0), ("--pages --wrong --meet", 2)] {
        let folder = TestFolder::new();
        let shop = start_on_sqlite("form_shop.py", &folder, args);
        let finished = check_process_with(&folder, &shop, "form_shop.toml", &BY_TEXT);
        assert_ends_with(&finished, code);
        if code == 2 {
            let (code, told) = run_script(&folder, "report/reproduction/form_shop.sh", "3");
            assert_eq!(code, Some(1), "{told}");
        }
    }
}

/// Tries the file of the form shop with these replacements.
fn dry_run(folder: &TestFolder, shop: &ShopProcess, replaced: &[(&str, &str)]) -> Finished {
    let text = shop.file("form_shop.toml", &[&[("stock = 100", "stock = 10")], replaced].concat());
    fs::write(folder.path("shop.toml"), text).unwrap();
    finish(&mut folder.loadgen(["check", "--dry-run", "shop.toml"]))
}

#[test]
fn a_dry_run_shows_the_redirects_of_a_form_shop() {
    let folder = TestFolder::new();
    let shop = start_on_sqlite("form_shop.py", &folder, "");
    let finished = dry_run(&folder, &shop, &[]);
    assert_eq!(finished.code, Some(0), "{}{}", finished.stdout, finished.stderr);
    let login = format!("= read as: a redirect to {}/shop, which is a success, so the buyer goes on\n", shop.url());
    for expected in [
        &login,
        "= read as: sold\n",
        "buyer 0 was told: sold, as order /orders/",
        "the database says: 1 order of 1 unit\n",
        "whether the shop has answers that match sold-out, refused\n",
    ] {
        assert!(finished.stdout.contains(expected), "{expected}\n{}", finished.stdout);
    }
}

#[test]
fn a_redirect_without_a_meaning_ends_with_its_header() {
    let folder = TestFolder::new();
    let shop = start_on_sqlite("form_shop.py", &folder, "");
    let expected = format!(
        "which no pattern of sold, sold-out, over-limit, refused or queued matches; if it means sold, write {THANKS} into"
    );
    dry_run(&folder, &shop, &[(THANKS, "sold = [{ status = 200 }]")]).assert_error(3, &expected);
    // A buyer that did not log in is sent to the login, and not taken for one that bought.
    let stranger = dry_run(&folder, &shop, &[("curl {{url}}/login", "curl {{url}}/logon")]);
    stranger.assert_error(3, "buyer 0 could not sign up: shop.toml:12: answered 405, and a sign-up needs 2xx");
    let login = "[buyers]\nrequests = [\"curl {{url}}/login -d 'buyer={{number}}'\"]\n";
    let stranger = dry_run(&folder, &shop, &[(login, "")]);
    stranger
        .assert_error(3, "if it means sold, write sold = [{ status = 302, header = { location = \"/login\" } }] into");
}

#[test]
fn a_page_without_a_meaning_ends_with_its_text() {
    let folder = TestFolder::new();
    let shop = start_on_sqlite("form_shop.py", &folder, "--pages");
    let by_other_text = [BY_TEXT[0], BY_TEXT[1], BY_TEXT[2], ("Thank you", "You are welcome")];
    let expected = "write sold = [{ status = 200, text = \"…\" }] into [buy], or else sold-out, over-limit, refused or queued; other answers have \
                    200, too, so write a text into it that only this one has";
    dry_run(&folder, &shop, &by_other_text).assert_error(3, expected);
}
