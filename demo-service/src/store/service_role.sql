-- The role of the service, with the rights that its statements need and no more. The script may be run any number of times.

-- Roles belong to the whole server. Another database of the server may have created this role already, perhaps at this very
-- moment. The owner of this schema may lack the right to create roles.
do $$
begin
    create role seckill_service nologin;
exception
    when duplicate_object or unique_violation or insufficient_privilege then null;
end
$$;

do $$
begin
    if not exists (select from pg_roles where rolname = 'seckill_service') then
        return;
    end if;
    execute format('grant usage on schema %I to seckill_service', current_schema());
    grant select (version, success, checksum) on _sqlx_migrations to seckill_service;
    grant select,
        insert (goods_no, sale, stock_initial, on_hand),
        update (sale, stock_initial, on_hand, version, fence, fence_handover, fence_hold, guard, strategy, per_buyer)
        on goods to seckill_service;
    grant select, insert (ensemble, servers) on lock_service to seckill_service;
    grant select, insert, update (on_hand_final) on sales to seckill_service;
    grant select, insert, update (units) on buyer_units to seckill_service;
    grant select, insert (order_id, strategy, instance, buyer) on orders to seckill_service;
    grant select, insert (goods_no, sale, unit), update (order_id) on units to seckill_service;
    grant select, insert, update (on_hand) on buckets to seckill_service;
    grant select, insert (goods_no, sale, quantity, buyer, key), update (outcome, order_id, key) on tickets to seckill_service;
    grant select, insert (goods_no, sale, quantity, buyer, key, expires_at), update (key, state, ended_at, order_id)
        on reservations to seckill_service;
    grant select, insert on order_lines to seckill_service;
    grant select, insert (key, cart, goods_no, sale, order_id), delete on idempotency_keys to seckill_service;
    grant select, insert (order_id, strategy, instance, goods_no, sale, quantity, buyer, key, reason)
        on refused_orders to seckill_service;
    grant select, update (ms) on key_clock to seckill_service;
    grant select, insert, delete on key_marks to seckill_service;
end
$$;
