-- One batch of the strategy pg-merge without business time, statement by statement as the service sends it. The service knows the
-- sale, and sends the begin and the lock timeout in one message; the pipeline sends them in one flight. pgbench cannot compute
-- an array, so each batch writes the same units left.
\startpipeline
begin isolation level read committed;
set local lock_timeout = 5000;
\endpipeline
select sale, on_hand, version, guard, per_buyer from goods where goods_no = :goods_no::bigint for no key update \gset row_
with bounded as materialized (
    select set_config('lock_timeout', :row_wait_ms::integer::text, true),
        set_config('idle_in_transaction_session_timeout', :idle_ms::integer::text, true)
), taken as (
    update goods set on_hand = :left::bigint, version = version + 1 from bounded
    where goods_no = :goods_no::bigint and sale = :sale::bigint and guard = 'pg-row' and on_hand = :row_on_hand::bigint
        and (null::bigint is null or (fence, fence_handover, fence_hold) = (null::bigint, null::bigint, null::bigint))
    returning goods_no
), keys_bounded as materialized (
    select set_config('lock_timeout', :key_wait_ms::integer::text, true) from taken
), sold as materialized (
    select line.* from keys_bounded,
        unnest(:quantities::bigint[], :remaining::bigint[], :keys::text[], :carts::jsonb[], :buyers::text[])
        with ordinality as line (quantity, remaining, key, cart, buyer, number)
), headers as (
    insert into orders (strategy, instance, buyer) select 'pg-merge', 'pgbench', buyer from sold order by number
    returning order_id
), numbered as (
    select order_id, row_number() over (order by order_id) as number from headers
), written as materialized (
    select * from numbered join sold using (number)
), lines as (
    insert into order_lines (order_id, goods_no, sale, quantity, remaining, token, token_handover)
    select order_id, :goods_no::bigint, :sale::bigint, quantity, remaining, null::bigint, null::bigint from written
), limited as (
    insert into buyer_units (goods_no, sale, buyer, units, units_max)
    select :goods_no::bigint, :sale::bigint, buyer, sum(quantity), null::bigint from written where null::bigint is not null
    group by buyer order by buyer
    on conflict (goods_no, sale, buyer) do update set units = buyer_units.units + excluded.units
), keyed as (
    insert into idempotency_keys (key, cart, goods_no, sale, order_id)
    select key, cart, :goods_no::bigint, :sale::bigint, order_id from written where key is not null order by key
)
select order_id as order_id, pg_current_xact_id()::text as transaction from written order by number;
commit;
