//! What a script reads in the books of a shop, and what it concludes. It has only those parts for which the shop file says enough.

use std::fmt::Write as _;

use buyers::script::Source;

use super::Crowd;
use super::requests::ShellRequests;
use super::shell::{plain, take};
use crate::shop::described::{PageNumber, Shop, ShopBooks};

/// The columns of the orders in a database.
const COLUMNS: [&str; 3] = ["order_id", "buyer", "quantity"];

/// Writes the function that reads the books. `None` if there are none.
pub(super) fn reading(shop: &Shop, requests: &ShellRequests<'_>) -> Option<String> {
    let books = &shop.books;
    if !books.are_any() {
        return None;
    }
    let queries = books.queries.as_ref();
    let stock = queries.and_then(|queries| queries.stock.as_ref().map(|query| (queries, query)));
    let orders = queries.and_then(|queries| queries.orders.as_ref().map(|query| (queries, query)));
    let mut text = "# Reads the books.\nbooks() {\n".to_owned();
    match (stock, &books.stock) {
        (Some((queries, query)), _) => {
            let query = requests.text(&queries.url.as_text(query, &["stock"]));
            let _ = writeln!(text, "    left=$(database {query}) || unusable \"[books] could not be read\"");
            text += "    left=${left%%.*}\n    whole \"$left\"\n";
        }
        (None, Some(page)) => text += &of_page(page, "left", requests),
        (None, None) => {}
    }
    match (orders, &books.orders) {
        (Some((queries, query)), _) => {
            let query = requests.text(&queries.url.as_text(query, &COLUMNS));
            let _ = writeln!(
                text,
                "    database {query} >\"$folder/found\" || unusable \"[books] could not be read\"\n    \
                 sort \"$folder/found\" >\"$folder/rows\""
            );
        }
        (None, Some(page)) => text += &of_page(page, "orders", requests),
        (None, None) => {}
    }
    Some(text + "}\n\n")
}

fn of_page(page: &PageNumber, variable: &str, requests: &ShellRequests<'_>) -> String {
    let value = take(&page.source, "books");
    let curl = requests.curl(&page.request, None);
    format!(
        "    curl_as books {curl}\n    succeeds books '[books]'\n    {variable}={value}\n    whole \"${variable}\"\n"
    )
}

/// Writes what makes sure that `[sale]` has restored the stock, and notes the orders that it has left.
pub(super) fn before(books: &ShopBooks) -> String {
    if !books.are_any() {
        return String::new();
    }
    let mut text = "    # What [sale] has left is no sale of this try.\n    books\n".to_owned();
    if books.have_stock() {
        text += "    [ \"$left\" -eq \"$stock\" ] || unusable \"$left units are left after [sale], and the stock is $stock\"\n";
    }
    text += match (books.have_order_rows(), books.have_orders()) {
        (true, _) => "    mv \"$folder/rows\" \"$folder/before\"\n",
        (false, true) => "    before=$orders\n",
        (false, false) => "",
    };
    text
}

/// Writes what the try has sold, and what is wrong with it.
pub(super) fn conclusion(shop: &Shop, crowd: Crowd) -> String {
    let books = &shop.books;
    let mut text = told(crowd);
    let order = shop.script.order.as_ref();
    if crowd.purchases > 1 {
        text += &pairs(order, crowd, shop.script.outcome.is_some());
    }
    if books.are_any() {
        let _ = write!(text, "    sleep {}\n    books\n", books.quiet.as_secs_f64());
    }
    text += match (books.have_order_rows(), books.have_orders()) {
        (true, _) => {
            "    comm -13 \"$folder/before\" \"$folder/rows\" >\"$folder/orders\"\n    \
             orders=$(grep -c '' \"$folder/orders\" || true)\n"
        }
        (false, true) => "    orders=$((orders - before))\n",
        (false, false) => "",
    };
    let left = if books.have_stock() { "; left: $left" } else { "" };
    let orders = if books.have_orders() { "; orders: $orders" } else { "" };
    let _ = writeln!(text, "    echo \"try $try: $sold of $stock units told as sold{left}{orders}\"\n    is_wrong=");
    text += OF_ANSWERS;
    if let Some(order) = order {
        if crowd.purchases == 1 {
            text += &numbers(order, crowd, shop.script.outcome.is_some());
        }
        text += REPEATED;
    }
    if let (true, Some(most)) = (crowd.purchases > 1, shop.per_buyer) {
        text += &told_over_limit(most);
    }
    if books.have_stock() {
        text += OF_STOCK;
    }
    if books.have_orders() {
        text += OF_COUNT;
    }
    if books.have_order_rows() {
        text += OF_ORDERS;
        if let Some(most) = shop.per_buyer {
            text += &over_limit(most);
        }
        if shop.script.order.is_some() {
            text += OF_NUMBERS;
        }
    }
    text + "    [ -z \"$is_wrong\" ] || exit 1\n"
}

/// Writes the words of the shell that list the purchases.
fn purchases(Crowd { buyers, purchases }: Crowd) -> String {
    let last = buyers.saturating_sub(1);
    if purchases == 1 {
        return format!("$(seq 0 {last})");
    }
    let each = format!("{{ for (purchase = 1; purchase <= {purchases}; purchase++) print $1 \"-\" purchase }}");
    format!("$(seq 0 {last} | awk '{each}')")
}

/// Writes what counts the answers.
fn told(crowd: Crowd) -> String {
    let of = purchases(crowd);
    let all = crowd.buyers * crowd.purchases;
    format!(
        "    for number in {of}; do meaning \"$number\"; done >\"$folder/told\"\n    \
         sort \"$folder/told\" | uniq -c\n    \
         sold=$(grep -cx sold \"$folder/told\" || true)\n    \
         unknown=$(grep -cvxE 'sold|sold-out|over-limit|refused' \"$folder/told\" || true)\n    \
         [ \"$unknown\" -lt {all} ] || unusable \"no answer has a meaning of [buy]\"\n"
    )
}

/// Writes what takes the number of the order of a purchase. The answer to a purchase may have it, or the last one.
fn order_of(order: &Source, is_polled: bool) -> String {
    let of_answer = take(order, "\"$number\"");
    if is_polled {
        format!(
            "order=$(cat \"$folder/$number.order\" 2>/dev/null || true)\n        [ -n \"$order\" ] || order={of_answer}\n"
        )
    } else {
        format!("order={of_answer}\n")
    }
}

/// Writes what lists each unit that was told, with its buyer. A buyer that asks again may be told the same order again.
fn pairs(order: Option<&Source>, crowd: Crowd, is_polled: bool) -> String {
    let of = purchases(crowd);
    let order = order.map_or_else(|| "order=\n".to_owned(), |order| order_of(order, is_polled));
    format!(
        "    # A buyer that asks again may be told the same order again.\n    \
         for number in {of}; do\n        \
             [ \"$(meaning \"$number\")\" = sold ] || continue\n        \
             {order}        \
             printf '%s\\t%s\\n' \"${{order:-without a number: $number}}\" \"${{number%-*}}\"\n    \
         done | sort -u >\"$folder/pairs\"\n    \
         sold=$(grep -c '' \"$folder/pairs\" || true)\n    \
         cut -f 1 \"$folder/pairs\" | grep -v '^without a number' | sort >\"$folder/numbers\"\n"
    )
}

/// Writes what lists the orders that buyers were told of.
fn numbers(order: &Source, crowd: Crowd, is_polled: bool) -> String {
    let of = purchases(crowd);
    let order = order_of(order, is_polled);
    format!(
        "    for number in {of}; do\n        \
             [ \"$(meaning \"$number\")\" = sold ] || continue\n        \
             {order}        \
             [ -z \"$order\" ] || printf '%s\\n' \"$order\"\n    \
         done | sort >\"$folder/numbers\"\n"
    )
}

/// What looks for an order that two buyers were told of.
const REPEATED: &str = r#"    repeated=$(uniq -d "$folder/numbers" | tr '\n' ' ')
    [ -z "$repeated" ] || wrong "several buyers were told of the same order: $repeated"
"#;

/// Writes what looks for buyers that were told that they have too many units.
fn told_over_limit(most: u32) -> String {
    format!(
        "    above=$(cut -f 2 \"$folder/pairs\" | sort | uniq -c | awk '$1 > {most} {{ print $2 }}' | tr '\\n' ' ')\n    \
         [ -z \"$above\" ] || wrong \"these buyers were told of more than {most}: $above\"\n"
    )
}

/// Writes what looks for buyers with too many units. A buyer that is null is no buyer.
fn over_limit(most: u32) -> String {
    let program = plain(&format!(
        "$2 !~ /^(NULL)?$/ {{ units[$2] += $3 }} END {{ for (buyer in units) if (units[buyer] > {most}) print buyer }}"
    ));
    format!(
        "    above=$(awk -F '\\t' {program} \"$folder/orders\" | tr '\\n' ' ')\n    \
         [ -z \"$above\" ] || wrong \"these buyers have more units than {most}: $above\"\n"
    )
}

/// What the answers alone tell.
const OF_ANSWERS: &str = r#"    [ "$sold" -le "$stock" ] || wrong "more units were sold than there are"
    if [ $((sold + unknown)) -lt "$stock" ] && grep -qx sold-out "$folder/told"; then
        wrong "a buyer was told \"sold out\", and units are left"
    fi
"#;

/// What the stock tells. A buyer without an answer may have bought.
const OF_STOCK: &str = r#"    fell=$((stock - left))
    [ "$left" -ge 0 ] || wrong "the stock is below zero: $left"
    if [ "$fell" -lt "$sold" ] || [ "$fell" -gt $((sold + unknown)) ]; then
        wrong "the stock fell by $fell, and $sold were sold"
    fi
"#;

/// What the number of the orders tells.
const OF_COUNT: &str = r#"    [ "$orders" -le "$stock" ] || wrong "there are more orders than units: $orders"
    if [ "$orders" -lt "$sold" ] || [ "$orders" -gt $((sold + unknown)) ]; then
        wrong "$sold were told \"sold\", and there are $orders orders"
    fi
"#;

/// What each order tells.
const OF_ORDERS: &str = r#"    more=$(awk -F '\t' '$3 != 1 { print $1 }' "$folder/orders" | tr '\n' ' ')
    [ -z "$more" ] || wrong "these orders are not of one unit: $more"
"#;

/// What the numbers of the orders tell, if every answer and every order has one of the same kind.
const OF_NUMBERS: &str = r#"    cut -f 1 "$folder/orders" | sort -u >"$folder/booked"
    if [ "$(uniq "$folder/numbers" | grep -c '' || true)" -eq "$sold" ] && ! grep -qxE '(NULL)?' "$folder/booked" &&
        [ -n "$(comm -12 "$folder/numbers" "$folder/booked")" ]; then
        lost=$(comm -23 "$folder/numbers" "$folder/booked" | tr '\n' ' ')
        [ -z "$lost" ] || wrong "buyers were told of orders that the database does not have: $lost"
        untold=$(comm -13 "$folder/numbers" "$folder/booked" | tr '\n' ' ')
        if [ -n "$untold" ] && [ "$unknown" -eq 0 ]; then wrong "no buyer was told of these orders: $untold"; fi
    fi
"#;
