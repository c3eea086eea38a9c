#!/bin/sh
# a shop on MySQL: 2 buyers at the same instant. seen.
# Sends requests to http://127.0.0.1:8000 only. Needs curl, jq and mysql.
# Usage: sh THIS-FILE [TRIES]. Exit status: 1 as soon as a try has sold wrongly, 0 if none of them has, and another one
# if it could not be tried.
# Needs these variables of the environment, with the values that the shop file has:
#   SHOP_DATABASE: the database as options of mysql, such as -h HOST -u NAME -pPASSWORD DATABASE, in [books]
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

# Sends the one request of a buyer.
buys() {
    trap stop TERM
    curl_as "$@"
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

# Takes a value of a JSON answer. Older versions of jq round long numbers, so they become texts.
json() {
    sed -E 's/([:[,] *)(-?[0-9]{16,})( *[],}])/\1"\2"\3/g' "$folder/$1.body" 2>/dev/null |
        jq -r "$2 | scalars | values" 2>/dev/null || true
}

# Takes a header of an answer.
header() { tr -d '\r' <"$folder/$1.head" | sed -n "s/^$2: *//Ip" | tail -n 1; }

# Runs a statement at the database.
database() {
    # shellcheck disable=SC2086
    mysql $SHOP_DATABASE -NBe "$1"
}

# Reads an answer.
meaning() {
    status=$(cat "$folder/$1.status" 2>/dev/null || true)
    if [ "$status" = 201 ]; then echo sold; return; fi
    if { [ "$status" = 409 ] || [ "$status" = 410 ]; }; then echo sold-out; return; fi
    if { [ "$status" = 429 ] || [ "$status" = 503 ]; }; then echo refused; return; fi
    echo "unknown: status $status"
}

# Reads the books.
books() {
    curl_as books -X GET http://127.0.0.1:8000/stock
    succeeds books '[books]'
    left=$(json books '.["stock"]')
    whole "$left"
    database 'select if(charset(concat(order_id, '\'''\'')) = '\''binary'\'', lower(hex(order_id)), cast(order_id as char)), if(charset(concat(buyer, '\'''\'')) = '\''binary'\'', lower(hex(buyer)), cast(buyer as char)), if(charset(concat(quantity, '\'''\'')) = '\''binary'\'', lower(hex(quantity)), cast(quantity as char)) from (select null as order_id, null as buyer, null as quantity from dual where 1 = 0 union all select * from (select id, buyer, 1 from orders
) as found) as books' >"$folder/found" || unusable "[books] could not be read"
    sort "$folder/found" >"$folder/rows"
}

for program in curl jq mysql; do
    command -v "$program" >/dev/null || unusable "this script needs $program; install it"
done
: "${SHOP_DATABASE:?set it to the value that the shop file has}"
stock=5
tries=${1:-20}
case $tries in *[!0-9]*) tries=0 ;; esac
[ "$tries" -gt 0 ] || unusable "usage: sh $0 [TRIES], a whole number from 1"
for try in $(seq "$tries"); do
    rm -f "$folder"/*
    buyers=
    # [sale]
    curl_as sale -X POST http://127.0.0.1:8000/login -H 'content-type: application/json' -H 'accept: application/json' --data-raw '{}' -b "$folder/sale.jar" -c "$folder/sale.jar"
    succeeds sale '[sale]'
    curl_as sale -X POST http://127.0.0.1:8000/reset -b "$folder/sale.jar" -c "$folder/sale.jar"
    succeeds sale '[sale]'
    # What [sale] has left is no sale of this try.
    books
    [ "$left" -eq "$stock" ] || unusable "$left units are left after [sale], and the stock is $stock"
    mv "$folder/rows" "$folder/before"
    # [buy]: all at the same instant
    buys 0 -X POST http://127.0.0.1:8000/buy --form-string buyer=0 -F 'file="phone,password,note
1300,s3cret-of-0,it'\''s a note
1301,s3cret-of-1,\"$HOME, and \"\"more\"\"\"
''";filename="buyers.csv";type=text/csv' &
    buyers="$buyers $!"
    buys 1 -X POST http://127.0.0.1:8000/buy --form-string buyer=1 -F 'file="phone,password,note
1300,s3cret-of-0,it'\''s a note
1301,s3cret-of-1,\"$HOME, and \"\"more\"\"\"
''";filename="buyers.csv";type=text/csv' &
    buyers="$buyers $!"
    wait
    for number in $(seq 0 1); do meaning "$number"; done >"$folder/told"
    sort "$folder/told" | uniq -c
    sold=$(grep -cx sold "$folder/told" || true)
    unknown=$(grep -cvxE 'sold|sold-out|over-limit|refused' "$folder/told" || true)
    [ "$unknown" -lt 2 ] || unusable "no answer has a meaning of [buy]"
    sleep 2
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
        order=$(header "$number" x-order)
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
