-- One purchase of the strategy pg-conditional without business time, statement by statement as the service sends it. The service
-- knows the sale. Its begin sets a lock timeout in the same message, which a prepared statement cannot.
begin isolation level read committed;
update goods set on_hand = on_hand - 1::bigint, version = version + 1
where goods_no = :goods_no::bigint and sale = :sale::bigint and guard = 'pg-row' and on_hand >= 1::bigint
returning on_hand \gset left_
with header as (
    insert into orders (strategy, instance) values ('pg-conditional', 'pgbench') returning order_id
), lines as (
    insert into order_lines (order_id, goods_no, sale, quantity, remaining, token, token_handover)
    select header.order_id, line.* from header, unnest(
        array[:goods_no::bigint], array[:sale::bigint], array[1::bigint], array[:left_on_hand::bigint],
        array[null::bigint], array[null::bigint]) as line
), keyed as (
    insert into idempotency_keys (key, cart, goods_no, sale, order_id)
    select null::text, null::jsonb, :goods_no::bigint, :sale::bigint, order_id from header
    where null::text is not null
    on conflict (key) do nothing
    returning order_id
)
select order_id, pg_current_xact_id()::text as transaction, null::text is null or exists (select from keyed) as is_first
from header \gset written_
commit;
