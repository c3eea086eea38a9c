#!/bin/sh
# a whole shop: 2 buyers at the same instant. seen.
# Sends requests to http://127.0.0.1:8000 and http://127.0.0.1:8001 only. Needs curl, jq and psql.
# Usage: sh THIS-FILE [TRIES]. Exit status: 1 as soon as a try has sold wrongly, 0 if none of them has, and another one
# if it could not be tried.
# Needs these variables of the environment, with the values that the shop file has:
#   SHOP_X_API_KEY: the secret of the header x-api-key in [buyers] (src/shop/reproduction/tests/postgres.toml:15) and [buy] (src/shop/reproduction/tests/postgres.toml:20) and [books] (src/shop/reproduction/tests/postgres.toml:34)
#   SHOP_COOKIE: the secret of the header cookie in [buy] (src/shop/reproduction/tests/postgres.toml:20)
#   SHOP_COOKIE_2: the secret of the header cookie in [buy] (src/shop/reproduction/tests/postgres.toml:20)
#   SHOP_AUTHORIZATION: NAME:PASSWORD in base64, of the header authorization in [outcome] (src/shop/reproduction/tests/postgres.toml:29)
#   SHOP_DATABASE: the URL of the database in [books]
#   SALE_DATABASE: the URL of the database in [sale]
#   password_0: password of this buyer in src/shop/reproduction/tests/buyers.csv
#   password_1: password of this buyer in src/shop/reproduction/tests/buyers.csv
# shellcheck disable=SC1078,SC1079,SC2016
set -eu
export LC_ALL=C no_proxy='*'
folder=$(mktemp -d)
buyers=
trap 'rm -rf "$folder"' EXIT
trap stop INT TERM HUP

# Ends the requests that are under way.
stop() {
    trap '' INT TERM HUP
    # shellcheck disable=SC2086
    kill ${!:-} $buyers 2>/dev/null || true
    wait
    exit 130
}

# Says why there can be no try.
unusable() {
    echo "$1" >&2
    exit 2
}

# Says what is wrong.
wrong() {
    echo "WRONG: $1"
    is_wrong=yes
}

# Sends a request, and keeps its answer by a name.
curl_as() {
    name=$1
    shift
    curl -gsS --max-time 60 -o "$folder/$name.body" -D "$folder/$name.head" -w '%{http_code}' "$@" \
        >"$folder/$name.status" &
    wait "$!" || true
}

# Ends the script unless a request has succeeded. A form of a buyer may be answered by a redirect.
succeeds() {
    case $(cat "$folder/$1.status")${3:-} in
        2??* | 30[23]form) ;;
        *) unusable "$2 failed: answered $(cat "$folder/$1.status") $(head -c 300 "$folder/$1.body" 2>/dev/null)" ;;
    esac
}

# Ends the script unless the books have a whole number.
whole() {
    case $1 in
        '' | - | ?*-* | *[!0-9-]*) unusable "the books have \"$1\" in the place of a whole number" ;;
    esac
}

# Encodes a value for a URL.
uri() { jq -rn --arg text "$1" '$text | @uri'; }

# Takes a value of a JSON answer. Older versions of jq round long numbers, so they become texts.
json() {
    sed -E 's/([:[,] *)(-?[0-9]{16,})( *[],}])/\1"\2"\3/g' "$folder/$1.body" 2>/dev/null |
        jq -r "$2 | scalars | values" 2>/dev/null || true
}

# Tells whether a JSON answer has a value.
json_has() { jq -e "$2" "$folder/$1.body" >/dev/null 2>&1; }

# Takes a header of an answer.
header() { tr -d '\r' <"$folder/$1.head" | sed -n "s/^$2: *//Ip" | tail -n 1; }

# Runs a statement at the database.
sale() {
    psql -XqAt -v ON_ERROR_STOP=1 -F "$(printf '\t')" -c "$1" "$SALE_DATABASE"
}

# Runs a statement at the database.
database() {
    psql -XqAt -v ON_ERROR_STOP=1 -F "$(printf '\t')" -c "$1" "$SHOP_DATABASE"
}

# Reads an answer.
meaning() {
    status=$(cat "$folder/$1.status" 2>/dev/null || true)
    if [ "$status" = 200 ] && json_has "$1" '.["data"]["status"] == "sold"'; then echo sold; return; fi
    if { [ "$status" = 200 ] || [ "$status" = 202 ]; } && json_has "$1" '.["success"] == true'; then echo queued; return; fi
    if json_has "$1" '.["errorMsg"] == "库存不足"'; then echo sold-out; return; fi
    if { [ "$status" = 429 ] || [ "$status" = 503 ]; }; then echo refused; return; fi
    echo "unknown: status $status"
}

# Reads the books.
books() {
    left=$(database 'select stock::text from (select stock from goods
) as books(stock)') || unusable "[books] could not be read"
    left=${left%%.*}
    whole "$left"
    database 'select order_id::text, buyer::text, quantity::text from (select id, buyer, 1 from orders
) as books(order_id, buyer, quantity)' >"$folder/found" || unusable "[books] could not be read"
    sort "$folder/found" >"$folder/rows"
}

for program in curl jq psql; do
    command -v "$program" >/dev/null || unusable "this script needs $program; install it"
done
: "${SHOP_X_API_KEY:?set it to the value that the shop file has}"
: "${SHOP_COOKIE:?set it to the value that the shop file has}"
: "${SHOP_COOKIE_2:?set it to the value that the shop file has}"
: "${SHOP_AUTHORIZATION:?set it to the value that the shop file has}"
: "${SHOP_DATABASE:?set it to the value that the shop file has}"
: "${SALE_DATABASE:?set it to the value that the shop file has}"
: "${password_0:?set it to the value of this buyer}"
: "${password_1:?set it to the value of this buyer}"
stock=5
tries=${1:-20}
case $tries in *[!0-9]*) tries=0 ;; esac
[ "$tries" -gt 0 ] || unusable "usage: sh $0 [TRIES], a whole number from 1"
for try in $(seq "$tries"); do
    rm -f "$folder"/*
    buyers=
    # [sale]
    sale 'update goods set stock = 5, note = '\''it'\'''\''s on sale'\''' >/dev/null || unusable "the SQL of [sale] failed"
    sale 'delete from carts' >/dev/null || unusable "the SQL of [sale] failed"
    # What [sale] has left is no sale of this try.
    books
    [ "$left" -eq "$stock" ] || unusable "$left units are left after [sale], and the stock is $stock"
    mv "$folder/rows" "$folder/before"
    # [buyers]: each signs up
    curl_as 0 -X POST http://127.0.0.1:8000/login -H 'x-api-key: '"$SHOP_X_API_KEY" -H 'content-type: application/x-www-form-urlencoded' --data-raw 'phone=1300&password='"$password_0" -b "$folder/0.jar" -c "$folder/0.jar"
    succeeds 0 '[buyers] of buyer 0' form
    taken=$(header 0 x-csrf-token); csrf_2d_token_0=${taken:-${csrf_2d_token_0:-}}
    taken=$(json 0 '.["data"]["token"]'); token_0=${taken:-${token_0:-}}
    curl_as 1 -X POST http://127.0.0.1:8001/login -H 'x-api-key: '"$SHOP_X_API_KEY" -H 'content-type: application/x-www-form-urlencoded' --data-raw 'phone=1301&password='"$password_1" -b "$folder/1.jar" -c "$folder/1.jar"
    succeeds 1 '[buyers] of buyer 1' form
    taken=$(header 1 x-csrf-token); csrf_2d_token_1=${taken:-${csrf_2d_token_1:-}}
    taken=$(json 1 '.["data"]["token"]'); token_1=${taken:-${token_1:-}}
    # [buy]: all at the same instant
    (
        trap stop TERM
        curl_as 0 -X GET 'http://127.0.0.1:8000/cart?note=it%27s%20a%20note' -H 'authorization: Bearer '"$token_0" -H 'x-api-key: '"$SHOP_X_API_KEY" -H 'cookie: session='"$SHOP_COOKIE"'; theme='"$SHOP_COOKIE_2" -b "$folder/0.jar" -c "$folder/0.jar"
        case $(meaning 0) in sold-out | over-limit | refused) exit ;; esac
        curl_as 0 -X POST http://127.0.0.1:8000/buy/1 -H 'authorization: Bearer '"$token_0" -H 'x-csrf-token: '"$csrf_2d_token_0" -H 'content-type: application/json' -H 'accept: application/json' --data-raw '{"note":"it'\''s a note"}' -b "$folder/0.jar" -c "$folder/0.jar"
        taken=$(json 0 '.["data"]["order"]'); order_0=${taken:-${order_0:-}}
        printf '%s' "$order_0" >"$folder/0.order"
        for _ in $(seq 150); do
            [ "$(meaning 0)" = queued ] || break
            sleep 0.2
            curl_as 0 -X GET http://127.0.0.1:8000/orders/"$(uri "$order_0")" -H 'authorization: Bearer '"$token_0" -H 'authorization: Basic '"$SHOP_AUTHORIZATION" --max-time 5 -b "$folder/0.jar" -c "$folder/0.jar"
        done
    ) &
    buyers="$buyers $!"
    (
        trap stop TERM
        curl_as 1 -X GET 'http://127.0.0.1:8001/cart?note=%24HOME%2C%20and%20%22more%22' -H 'authorization: Bearer '"$token_1" -H 'x-api-key: '"$SHOP_X_API_KEY" -H 'cookie: session='"$SHOP_COOKIE"'; theme='"$SHOP_COOKIE_2" -b "$folder/1.jar" -c "$folder/1.jar"
        case $(meaning 1) in sold-out | over-limit | refused) exit ;; esac
        curl_as 1 -X POST http://127.0.0.1:8001/buy/1 -H 'authorization: Bearer '"$token_1" -H 'x-csrf-token: '"$csrf_2d_token_1" -H 'content-type: application/json' -H 'accept: application/json' --data-raw '{"note":"$HOME, and "more""}' -b "$folder/1.jar" -c "$folder/1.jar"
        taken=$(json 1 '.["data"]["order"]'); order_1=${taken:-${order_1:-}}
        printf '%s' "$order_1" >"$folder/1.order"
        for _ in $(seq 150); do
            [ "$(meaning 1)" = queued ] || break
            sleep 0.2
            curl_as 1 -X GET http://127.0.0.1:8001/orders/"$(uri "$order_1")" -H 'authorization: Bearer '"$token_1" -H 'authorization: Basic '"$SHOP_AUTHORIZATION" --max-time 5 -b "$folder/1.jar" -c "$folder/1.jar"
        done
    ) &
    buyers="$buyers $!"
    wait
    for number in $(seq 0 1); do meaning "$number"; done >"$folder/told"
    sort "$folder/told" | uniq -c
    sold=$(grep -cx sold "$folder/told" || true)
    unknown=$(grep -cvxE 'sold|sold-out|over-limit|refused' "$folder/told" || true)
    [ "$unknown" -lt 2 ] || unusable "no answer has a meaning of [buy]"
    sleep 0.5
    books
    comm -13 "$folder/before" "$folder/rows" >"$folder/orders"
    orders=$(grep -c '' "$folder/orders" || true)
    echo "try $try: $sold of $stock units told as sold; left: $left; orders: $orders"
    is_wrong=
    [ "$sold" -le "$stock" ] || wrong "more units were sold than there are"
    if [ $((sold + unknown)) -lt "$stock" ] && grep -qx sold-out "$folder/told"; then
        wrong "a buyer was told \"sold out\", and units are left"
    fi
    for number in $(seq 0 1); do
        [ "$(meaning "$number")" = sold ] || continue
        order=$(cat "$folder/$number.order" 2>/dev/null || true)
        [ -n "$order" ] || order=$(json "$number" '.["data"]["order"]')
        [ -z "$order" ] || printf '%s\n' "$order"
    done | sort >"$folder/numbers"
    repeated=$(uniq -d "$folder/numbers" | tr '\n' ' ')
    [ -z "$repeated" ] || wrong "several buyers were told of the same order: $repeated"
    fell=$((stock - left))
    [ "$left" -ge 0 ] || wrong "the stock is below zero: $left"
    if [ "$fell" -lt "$sold" ] || [ "$fell" -gt $((sold + unknown)) ]; then
        wrong "the stock fell by $fell, and $sold were sold"
    fi
    [ "$orders" -le "$stock" ] || wrong "there are more orders than units: $orders"
    if [ "$orders" -lt "$sold" ] || [ "$orders" -gt $((sold + unknown)) ]; then
        wrong "$sold were told \"sold\", and there are $orders orders"
    fi
    more=$(awk -F '\t' '$3 != 1 { print $1 }' "$folder/orders" | tr '\n' ' ')
    [ -z "$more" ] || wrong "these orders are not of one unit: $more"
    above=$(awk -F '\t' '$2 !~ /^(NULL)?$/ { units[$2] += $3 } END { for (buyer in units) if (units[buyer] > 1) print buyer }' "$folder/orders" | tr '\n' ' ')
    [ -z "$above" ] || wrong "these buyers have more units than 1: $above"
    cut -f 1 "$folder/orders" | sort -u >"$folder/booked"
    if [ "$(uniq "$folder/numbers" | grep -c '' || true)" -eq "$sold" ] && ! grep -qxE '(NULL)?' "$folder/booked" &&
        [ -n "$(comm -12 "$folder/numbers" "$folder/booked")" ]; then
        lost=$(comm -23 "$folder/numbers" "$folder/booked" | tr '\n' ' ')
        [ -z "$lost" ] || wrong "buyers were told of orders that the database does not have: $lost"
        untold=$(comm -13 "$folder/numbers" "$folder/booked" | tr '\n' ' ')
        if [ -n "$untold" ] && [ "$unknown" -eq 0 ]; then wrong "no buyer was told of these orders: $untold"; fi
    fi
    [ -z "$is_wrong" ] || exit 1
done
echo "nothing was sold wrongly"
