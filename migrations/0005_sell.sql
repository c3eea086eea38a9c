-- One purchase in one statement, for the strategy pg-function. Takes the units of each line if enough are left, and writes
-- the order with its lines and its key, or writes nothing. The lines are in the order of their SKU numbers, as everywhere, so
-- that no two carts can wait for each other.
--
-- outcome: 'sold'; or 'sold-out' or 'restarted' (the sale is over, or another family guards it) because of that line.
-- If units of an earlier line were taken already, the function raises SD001 (sold out) or SD002 (restarted), which gives them
-- back; the message is the number of the line. A key that has an order already raises 23505.
--
-- All waits for rows and for the key end in_wait_ms after the statement began. Postgres limits each wait by itself, so the
-- limit is set before each.
create function sell(
    in_goods bigint[], in_sales bigint[], in_quantities bigint[],
    in_family text, in_strategy text, in_instance text, in_key text, in_cart jsonb, in_wait_ms bigint,
    out outcome text, out line integer, out order_id bigint, out remaining bigint[]
) language plpgsql as $$
declare
    units_left bigint;
    wait_until timestamptz := statement_timestamp() + in_wait_ms * interval '1 millisecond';
begin
    for i in 1 .. cardinality(in_goods) loop
        perform set_config(
            'lock_timeout', greatest(1, ceil(extract(epoch from wait_until - clock_timestamp()) * 1000))::bigint::text, true);
        update goods set on_hand = goods.on_hand - in_quantities[i], version = goods.version + 1
        where goods.goods_no = in_goods[i] and goods.sale = in_sales[i] and goods.guard = in_family
            and goods.on_hand >= in_quantities[i]
        returning goods.on_hand into units_left;
        if not found then
            line := i;
            perform from goods
            where goods.goods_no = in_goods[i] and goods.sale = in_sales[i] and goods.guard = in_family;
            outcome := case when found then 'sold-out' else 'restarted' end;
            if i > 1 then
                raise exception using
                    errcode = case outcome when 'sold-out' then 'SD001' else 'SD002' end, message = i::text;
            end if;
            return;
        end if;
        remaining[i] := units_left;
    end loop;

    insert into orders (strategy, instance) values (in_strategy, in_instance) returning orders.order_id into order_id;
    insert into order_lines (order_id, goods_no, sale, quantity, remaining)
    select sell.order_id, sold.* from unnest(in_goods, in_sales, in_quantities, sell.remaining) as sold;
    if in_key is not null then
        perform set_config(
            'lock_timeout', greatest(1, ceil(extract(epoch from wait_until - clock_timestamp()) * 1000))::bigint::text, true);
        insert into idempotency_keys (key, cart, goods_no, sale, order_id)
        values (in_key, in_cart, in_goods[1], in_sales[1], order_id);
    end if;
    outcome := 'sold';
end
$$;

comment on function sell is 'sells one cart in one statement, or nothing of it; see the strategy pg-function';
