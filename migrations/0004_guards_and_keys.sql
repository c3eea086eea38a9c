-- A sale has one guard: the family of strategies that may write it. Strategies of one family exclude each other.
-- Instances of earlier versions write without looking at the guard, and lock other paths in ZooKeeper: stop all of them
-- before this runs.
alter table goods
    add column guard    text,
    add column strategy text,
    add constraint goods_guard_with_strategy check ((guard is null) = (strategy is null));

comment on column goods.guard is
    'family of the strategies that may write this sale; null until the first purchase claims the sale';
comment on column goods.strategy is
    'strategy of the purchases of this sale that name none; null as long as the guard is';

-- A key is written with the order that was sold under it, so it belongs to that sale. Refusals leave no key.
alter table idempotency_keys
    add column goods_no bigint references goods,
    add column sale     bigint,
    add column order_id bigint unique references orders;

update idempotency_keys
set order_id = orders.order_id, goods_no = line.goods_no, sale = line.sale
from orders
cross join lateral (
    select goods_no, sale from order_lines where order_id = orders.order_id order by goods_no limit 1
) as line
where orders.idempotency_key = key;

delete from idempotency_keys where order_id is null;

alter table idempotency_keys
    alter column goods_no set not null,
    alter column sale set not null,
    alter column order_id set not null,
    drop column sold_out;

alter table orders drop column idempotency_key;

-- Expired keys are found by their age.
create index idempotency_keys_by_age on idempotency_keys (created_at);

comment on column idempotency_keys.goods_no is 'the first SKU of the order, by number';
comment on column idempotency_keys.sale is 'the sale of that SKU in which the order was sold';
