-- One row a SKU. A reset starts a new sale and deletes nothing, so every sale can be audited afterwards.
create table goods (
    goods_no      bigint primary key,
    sale          bigint not null,
    stock_initial bigint not null check (stock_initial >= 0),
    on_hand       bigint not null check (on_hand >= 0)
);

-- Written in the deduction's own transaction: the orders of a sale are what was really sold,
-- whatever a lost update did to goods.on_hand.
create table orders (
    order_id   bigint generated always as identity primary key,
    goods_no   bigint not null references goods,
    sale       bigint not null,
    quantity   bigint not null check (quantity > 0),
    strategy   text not null,
    instance   text not null,
    token      bigint,
    created_at timestamptz not null default clock_timestamp()
);

create index orders_by_sale on orders (goods_no, sale);

comment on column orders.token is 'fencing token of the hold that wrote the order; null for a strategy without one';
