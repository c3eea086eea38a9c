-- An order may have several lines, one a SKU, which are sold together or not at all.
create table order_lines (
    order_id       bigint not null references orders,
    goods_no       bigint not null references goods,
    sale           bigint not null,
    quantity       bigint not null check (quantity > 0),
    remaining      bigint check (remaining >= 0),
    token          bigint,
    token_handover bigint,
    primary key (order_id, goods_no)
);

insert into order_lines (order_id, goods_no, sale, quantity, token, token_handover)
select order_id, goods_no, sale, quantity, token, case when token is not null then 0 end from orders;

create index order_lines_by_sale on order_lines (goods_no, sale);

alter table orders
    drop column goods_no,
    drop column sale,
    drop column quantity,
    drop column token;

comment on column order_lines.remaining is
    'units left as the deduction saw it; null in orders from before this was recorded';
comment on column order_lines.token is
    'fencing token of the hold that wrote the line; null for a strategy without one';
comment on column order_lines.token_handover is
    'second part of the fencing token: hand-overs within a process since the grant';

-- The highest token that was seen of the holders of a SKU, and how often it was written: what the fenced and the
-- optimistic strategies check when they write.
alter table goods
    add column fence          bigint not null default 0,
    add column fence_handover bigint not null default 0,
    add column version        bigint not null default 0;

-- What was asked for under a key, written in the transaction that answers it: by an order, or by sold_out, the SKU of
-- which not enough was left.
create table idempotency_keys (
    key        text primary key check (length(key) between 1 and 255),
    cart       jsonb not null,
    sold_out   bigint references goods,
    created_at timestamptz not null default clock_timestamp()
);

alter table orders add column idempotency_key text references idempotency_keys;
create unique index orders_by_key on orders (idempotency_key) where idempotency_key is not null;
