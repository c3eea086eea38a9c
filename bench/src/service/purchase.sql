-- One purchase of the strategy pg-conditional without business time, statement by statement as the service sends it. The service
-- knows the sale. Its begin sets a lock timeout in the same message, which a prepared statement cannot.
begin isolation level read committed;
update goods set on_hand = on_hand - 1::bigint, version = version + 1
where goods_no = :goods_no::bigint and sale = :sale::bigint and guard = 'pg-row' and on_hand >= 1::bigint
returning on_hand \gset left_
with header as (
    insert into orders (strategy, instance, buyer) values ('pg-conditional', 'pgbench', null) returning order_id
), limited as (
    insert into buyer_units (goods_no, sale, buyer, units, units_max)
    select goods_no, sale, null, quantity, units_max
    from unnest(array[:goods_no::bigint], array[:sale::bigint], array[1::bigint], array[null::bigint])
        as line (goods_no, sale, quantity, units_max)
    where units_max is not null order by goods_no
    on conflict (goods_no, sale, buyer) do update set units = buyer_units.units + excluded.units
    where buyer_units.units + excluded.units <= buyer_units.units_max
    returning goods_no
), lines as (
    insert into order_lines (order_id, goods_no, sale, quantity, remaining, token, token_handover)
    select header.order_id, line.* from header, unnest(
        array[:goods_no::bigint], array[:sale::bigint], array[1::bigint], array[:left_on_hand::bigint],
        array[null::bigint], array[null::bigint]) as line
), keyed as (
    insert into idempotency_keys (key, cart, goods_no, sale, order_id)
    select null::text, null::jsonb, :goods_no::bigint, :sale::bigint, order_id
    from header, (select count(*) from limited) as buyers_first
    where null::text is not null
    on conflict (key) do nothing
    returning order_id
)
select order_id, pg_current_xact_id()::text as transaction, (null::text is null or exists (select from keyed)) as is_first,
    coalesce((select array_agg(goods_no) from limited), '{}') as within_limits
from header \gset written_
commit;
