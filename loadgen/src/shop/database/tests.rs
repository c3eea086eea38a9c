//! What every server has in common, and Postgres. The tests of the other servers are beside them.

use testbed::TestDatabase;

use super::*;

fn read(url: &str) -> Result<DatabaseUrl, String> {
    DatabaseUrl::read(url, Path::new("/shops"))
}

#[test]
fn a_url_that_cannot_be_read_says_why_without_its_password() {
    for (url, expected) in [
        (
            "oracle://me:s3cret@127.0.0.1/shop",
            "databases of oracle are not supported; supported are postgres://, mysql://,",
        ),
        ("127.0.0.1:5432/shop", "this is no URL of a database; write one such as postgres://"),
        ("shop.db", "this is no URL of a database; write one such as postgres://USER@HOST/DATABASE or sqlite:FILE"),
        (
            "postgres://me:s3cret@a,b/shop",
            "the URL of the database cannot be read: it names several hosts; name the primary",
        ),
        ("postgres://me:s3cret@a:port/shop", "the URL of the database cannot be read"),
    ] {
        let refused = read(url).unwrap_err();
        assert!(refused.starts_with(expected) && !refused.contains("s3cret"), "{url}: {refused}");
    }
}

#[test]
fn a_build_without_a_server_names_the_one_that_has_it() {
    let refused = refusal("mysql", &["mysql", "sqlite"]);
    assert!(
        refused.starts_with("this loadgen is built without mysql; build one with `cargo build --release"),
        "{refused}"
    );
    for url in ["mysql://127.0.0.1/shop", "mariadb://127.0.0.1/shop", "sqlite:shop.db"] {
        assert_eq!(read(url).is_ok(), cfg!(feature = "shop-databases"), "{url}");
    }
}

#[test]
fn a_database_is_named_without_its_password() {
    let database = read("postgres://me:s3cret@db.example:5433/shop").unwrap();
    assert_eq!(format!("{database:?}"), "postgres://db.example:5433");
    assert!(!database.is_here());
    assert!(read("postgres://me@127.0.0.1/shop").unwrap().is_here());
}

#[test]
fn only_a_whole_number_is_one() {
    for (text, expected) in [("7", Some(7)), ("-3", Some(-3)), (" 7.00 ", Some(7)), ("7.", Some(7))] {
        assert_eq!(whole_number(text), expected, "{text}");
    }
    for text in ["", ".", "7.5", "1e3", "seven", "7 units", "92233720368547758070"] {
        assert_eq!(whole_number(text), None, "{text}");
    }
}

#[tokio::test]
async fn the_books_of_a_database_are_read_whatever_their_types() {
    let server = TestDatabase::create().await.unwrap();
    let database = read(server.url()).unwrap();
    let statements = [
        "create table item (units int); insert into item values (3)",
        "create table sold (id uuid, who varchar(9), n numeric(9, 2))",
        "insert into sold values ('00000000-0000-0000-0000-000000000001', 'ann', 2), (null, null, 1)",
    ];
    database.run(&statements.map(str::to_owned)).await.unwrap();
    assert_eq!(database.stock("select units from item;").await.unwrap(), 3);
    let orders = database.orders("select id, who, n from sold order by n desc -- all").await.unwrap();
    let of_ann = ShopOrder {
        number: Some("00000000-0000-0000-0000-000000000001".to_owned()),
        buyer: Some("ann".to_owned()),
        units: 2,
    };
    assert_eq!(orders, [of_ann, ShopOrder { number: None, buyer: None, units: 1 }]);
}

#[tokio::test]
async fn a_query_for_the_books_can_write_nothing() {
    let server = TestDatabase::create().await.unwrap();
    let database = read(server.url()).unwrap();
    database.run(&["create table item (units int); create sequence numbers".to_owned()]).await.unwrap();
    let missing = database.stock("select units from item").await.unwrap_err().to_string();
    assert!(missing.starts_with("the query for the stock in [books] finds no number in postgres://"), "{missing}");
    let refused = program::chain(&database.stock("select nextval('numbers')").await.unwrap_err());
    assert!(refused.contains("in a read-only transaction"), "{refused}");
}

#[tokio::test]
async fn what_is_no_number_is_shown_with_the_remedy() {
    let server = TestDatabase::create().await.unwrap();
    let database = read(server.url()).unwrap();
    let stock = database.stock("select 'many'").await.unwrap_err().to_string();
    let expected = "finds \"many\" in postgres://127.0.0.1:";
    assert!(stock.contains(expected) && stock.contains("; name the column that has the units left"), "{stock}");
    for (query, expected) in [
        ("select 7, 'ann', 'two'", "finds \"two\" as the units of order 7 in postgres://"),
        ("select 7, 'ann', null", "finds nothing as the units of order 7 in postgres://"),
        ("select null, 'ann', 0.5", "finds \"0.5\" as the units of an order without a number in postgres://"),
    ] {
        let orders = database.orders(query).await.unwrap_err().to_string();
        assert!(orders.contains(expected) && orders.ends_with("in the order number, buyer, units"), "{orders}");
    }
}

#[tokio::test]
async fn a_refused_statement_is_named_by_its_number() {
    let server = TestDatabase::create().await.unwrap();
    let database = read(server.url()).unwrap();
    let statements = ["create table item (units int)", "update itm set units = 1"];
    let refused = program::chain(&database.run(&statements.map(str::to_owned)).await.unwrap_err());
    assert!(refused.starts_with("could not run statement 2 of sql in [sale] in postgres://127.0.0.1:"), "{refused}");
    assert!(refused.contains("relation \"itm\" does not exist"), "{refused}");
}

#[tokio::test]
async fn a_server_that_does_not_answer_comes_with_the_remedy() {
    let refused = read("postgres://me:s3cret@127.0.0.1:1/shop").unwrap().stock("select 1").await.unwrap_err();
    let refused = program::chain(&refused);
    assert!(refused.starts_with("could not connect to postgres://127.0.0.1:1: "), "{refused}");
    assert!(refused.ends_with("; start the server, or correct url in the shop file"), "{refused}");
    assert!(!refused.contains("s3cret"), "{refused}");
}
