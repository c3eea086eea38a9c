-- The ledger: one row a sale, so that each can be audited when it is long over. What it began with, less what its orders
-- took, is what was left. The row of a sale is written in the transaction that starts it, which also ends the sale before.
create table sales (
    goods_no      bigint not null references goods,
    sale          bigint not null,
    stock_initial bigint not null check (stock_initial >= 0),
    on_hand_final bigint check (on_hand_final >= 0),
    started_at    timestamptz,
    primary key (goods_no, sale)
);

comment on column sales.on_hand_final is
    'goods.on_hand when the next sale started, which ended this one; null as long as it is on';
comment on column sales.started_at is
    'null for a sale that started before there was a ledger, or past it';

-- Of the sales that are over already nobody noted what they began with, so they have no row.
insert into sales (goods_no, sale, stock_initial)
select goods_no, sale, stock_initial from goods;
