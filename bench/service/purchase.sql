-- One purchase of the strategy pg-conditional, statement by statement as the service sends it.
begin isolation level read committed;
select sale, on_hand, version, guard from goods where goods_no = :goods_no::bigint \gset read_
update goods set on_hand = on_hand - 1::bigint, version = version + 1
where goods_no = :goods_no::bigint and sale = :read_sale::bigint and guard = 'pg-row' and on_hand >= 1::bigint
returning on_hand \gset left_
with header as (
    insert into orders (strategy, instance) values ('pg-conditional', 'pgbench') returning order_id
), lines as (
    insert into order_lines (order_id, goods_no, sale, quantity, remaining, token, token_handover)
    select header.order_id, line.* from header, unnest(
        array[:goods_no::bigint], array[:read_sale::bigint], array[1::bigint], array[:left_on_hand::bigint],
        array[null::bigint], array[null::bigint]) as line
)
select order_id, pg_current_xact_id()::text as transaction from header \gset written_
commit;
