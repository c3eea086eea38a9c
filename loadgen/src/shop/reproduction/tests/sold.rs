//! Scripts that are run at a real shop.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::booked_shop::{BookedFault, BookedShop, DATABASE, PAGES};

const RIGHT: &str = "nothing was sold wrongly\n";

// C43
#[tokio::test(flavor = "multi_thread")]
async fn orders_from_before_the_sale_are_no_fault() {
    let shop = BookedShop::start(BookedFault::Nothing).await;
    for (books, orders) in [(PAGES, "; left: 3; orders: 2"), (DATABASE, "; left: 3; orders: 2"), ("", "")] {
        let (code, told) = shop.run(&shop.file(books)).await;
        assert_eq!((code, told.ends_with(RIGHT)), (Some(0), true), "{told}");
        assert!(told.contains(&format!("try 2: 2 of 5 units told as sold{orders}\n")), "{told}");
    }
}

// C43
#[tokio::test(flavor = "multi_thread")]
async fn a_script_finds_what_an_audit_finds() {
    for (fault, books, expected) in [
        (BookedFault::LosesUpdates, PAGES, &["the stock fell by 1, and 2 were sold"][..]),
        (BookedFault::LosesUpdates, DATABASE, &["the stock fell by 1, and 2 were sold"]),
        (BookedFault::TellsOneOrder, "", &["several buyers were told of the same order: 1790000000000000000 "]),
        (BookedFault::TellsOneOrder, DATABASE, &["several buyers were told of the same order: 1790000000000000000 "]),
        (BookedFault::BooksTwice, PAGES, &["2 were told \"sold\", and there are 4 orders"]),
        (
            BookedFault::BooksTwice,
            DATABASE,
            &["and there are 4 orders", "these buyers have more units than 1: ", "no buyer was told"],
        ),
        (
            BookedFault::TellsAnotherOrder,
            DATABASE,
            &[
                "buyers were told of orders that the database does not have: 1790000000001000001 ",
                "no buyer was told of these orders: 1790000000000000001 ",
            ],
        ),
        (
            BookedFault::BooksTwoUnits,
            DATABASE,
            &["these orders are not of one unit: 1790000000000000000 1790000000000000001 "],
        ),
        (BookedFault::HidesUnits, "", &["a buyer was told \"sold out\", and units are left"]),
    ] {
        let shop = BookedShop::start(fault).await;
        let (code, told) = shop.run(&shop.file(books)).await;
        assert_eq!(code, Some(1), "{fault:?} {told}");
        let all_wrong = expected.iter().all(|line| told.contains(line));
        assert!(all_wrong && told.contains("WRONG: "), "{fault:?} {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_is_to_try_nothing_says_how_it_is_used() {
    let shop = BookedShop::start(BookedFault::LosesUpdates).await;
    shop.write(&shop.file(PAGES), 2);
    for tries in ["--help", "0", "00", "-1", "1x", "2 3"] {
        let (code, told) = shop.finish(shop.command(tries)).await;
        assert!(code == Some(2) && told.contains("[TRIES], a whole number from 1\n"), "{tries}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_two_sources_of_numbers_share_decides_what_is_compared() {
    let shop = BookedShop::start(BookedFault::Nothing).await;
    // These numbers are of another kind than those that buyers are told.
    let file = shop.file(DATABASE).replace("select id,", "select 'row ' || rowid,");
    let (code, told) = shop.run(&file).await;
    assert_eq!((code, told.ends_with(RIGHT)), (Some(0), true), "{told}");
}

// C43
#[tokio::test(flavor = "multi_thread")]
async fn a_try_that_proves_nothing_is_no_verdict() {
    for (fault, books, expected) in [
        (BookedFault::RestoresLess, PAGES, "4 units are left after [sale], and the stock is 5\n"),
        (BookedFault::RestoresLess, DATABASE, "4 units are left after [sale], and the stock is 5\n"),
        (BookedFault::Fails, PAGES, "no answer has a meaning of [buy]\n"),
    ] {
        let shop = BookedShop::start(fault).await;
        let (code, told) = shop.run(&shop.file(books)).await;
        assert_eq!((code, told.ends_with(expected)), (Some(2), true), "{told}");
    }
    let shop = BookedShop::start(BookedFault::Nothing).await;
    for (old, new, expected) in [
        ("/reset", "/rest", "[sale] failed: answered 404 \n"),
        ("$.left", "$.lft", "the books have \"\" in the place of a whole number\n"),
        ("requests = [\"curl -X POST {{url}}/reset\"]", "command = \"false\"", "the command of [sale] failed\n"),
        (
            "requests = [\"curl -X POST {{url}}/reset\"]",
            "sql = { url = \"sqlite:shop.db\", statements = [\"update goods set stok = 5\"] }",
            "the SQL of [sale] failed\n",
        ),
    ] {
        let (code, told) = shop.run(&shop.file(PAGES).replace(old, new)).await;
        assert_eq!((code, told.ends_with(expected)), (Some(2), true), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shop_without_a_new_order_is_right() {
    for books in [PAGES, DATABASE] {
        let shop = BookedShop::start(BookedFault::RefusesAll).await;
        let (code, told) = shop.run(&shop.file(books)).await;
        assert_eq!(
            (code, told.contains("try 1: 0 of 5 units told as sold; left: 5; orders: 0\n")),
            (Some(0), true),
            "{told}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_secret_has_a_variable_of_its_own() {
    let shop = BookedShop::with_keys(BookedFault::Nothing, ["key-of-reset", "key-of-buyers"]).await;
    let file = shop.file(PAGES).replace("/reset", "/reset -H 'X-Api-Key: key-of-reset'");
    let file = file.replace("-d buyer", "-H 'X-Api-Key: key-of-buyers' -H 'X-Api_Key: another-key' -d buyer");
    let script = shop.write(&file, 2);
    assert!(!script.contains("key-of") && !script.contains("another-key") && !script.contains('…'), "{script}");
    for line in [
        "#   SHOP_X_API_KEY: the secret of the header x-api-key in [sale] (",
        "#   SHOP_X_API_KEY_2: the secret of the header x-api-key in [buy] (",
        "#   SHOP_X_API_KEY_3: the secret of the header x-api_key in [buy] (",
    ] {
        assert!(script.contains(line), "{script}");
    }
    let (code, told) = shop.finish(shop.command("1")).await;
    assert!(
        code != Some(0) && code != Some(1) && told.contains("set it to the value that the shop file has"),
        "{told}"
    );
    let mut command = shop.command("1");
    for (end, key) in [("", "key-of-reset"), ("_2", "key-of-buyers"), ("_3", "another-key")] {
        command.env(format!("SHOP_X_API_KEY{end}"), key);
    }
    let (code, told) = shop.finish(command).await;
    assert_eq!((code, told.ends_with(RIGHT)), (Some(0), true), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_value_arrives_as_the_file_has_it() {
    let shop = BookedShop::start(BookedFault::Nothing).await;
    let value = "it's $HOME `id` \"q\" \\n; {a,b} [1-2]\nline two";
    std::fs::write(shop.path("buyers.csv"), format!("note\n\"{}\"\n", value.replace('"', "\"\""))).unwrap();
    std::fs::write(shop.path("note.txt"), value).unwrap();
    let data = "[buyers]\ncsv = \"buyers.csv\"\n";
    for (given, expected) in [
        ("--data-raw '{{note}}'", value.to_owned()),
        ("-F 'note={{note}}'", format!("\r\n\r\n{value}\r\n")),
        ("-F 'note=@note.txt;type=text/plain'", format!("Content-Type: text/plain\r\n\r\n{value}\r\n")),
    ] {
        let file = shop.file("").replace("-d buyer={{number}}", given) + data;
        shop.write(&file, 1);
        let (code, told) = shop.finish(shop.command("1")).await;
        assert_eq!(code, Some(0), "{given} {told}");
        let seen = shop.seen().await;
        assert!(seen.last().is_some_and(|body| body.contains(&expected)), "{given} {seen:?}");
    }
    let file = shop.file("").replace("/buy -d buyer={{number}}", "/buy?all[]={{note}} --globoff -d buyer=1") + data;
    shop.write(&file, 1);
    let (code, told) = shop.finish(shop.command("1")).await;
    assert_eq!(code, Some(0), "{told}");
    let query = format!("all[]={}", buyers::script::encoded(value));
    assert!(shop.seen().await.contains(&query), "{query} {:?}", shop.seen().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_leaves_no_request_and_no_file() {
    let shop = BookedShop::start(BookedFault::Hangs).await;
    let long = shop
        .file("")
        .replace("requests = [\"curl {{url}}/buy", "requests = [\"curl {{url}}/books\", \"curl {{url}}/buy");
    for file in [shop.file(""), long] {
        shop.write(&file, 2);
        let script = shop.command("1").spawn().unwrap();
        let pid = Pid::from_raw(script.id().unwrap().cast_signed());
        shop.until_hanging(2).await;
        kill(pid, Signal::SIGINT).unwrap();
        let output = script.wait_with_output().await.unwrap();
        assert_eq!((output.status.code(), shop.is_clean()), (Some(130), true), "{output:?}");
        shop.until_hanging(0).await;
    }
}
