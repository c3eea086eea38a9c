-- The whole schema. Numbers below 10 were those of revisions before the first release: a database that has one is refused.

-- One row a SKU. A reset starts a new sale and deletes nothing, so every sale can be audited afterwards. fence, fence_handover,
-- fence_hold and version are what the fenced and the optimistic strategies check when they write.
create table goods (
    goods_no       bigint primary key,
    sale           bigint not null,
    stock_initial  bigint not null check (stock_initial >= 0),
    on_hand        bigint not null check (on_hand >= 0),
    fence          bigint not null default 0,
    fence_handover bigint not null default 0,
    version        bigint not null default 0,
    guard          text,
    strategy       text,
    fence_hold     bigint,
    per_buyer      bigint check (per_buyer > 0),
    constraint goods_guard_with_strategy check ((guard is null) = (strategy is null))
);
comment on column goods.on_hand is
    'units left; as the sale began if pg-units or pg-buckets guards it: see the function units_left';
comment on column goods.guard is
    'family of the strategies that may write this sale; null until the first purchase claims the sale';
comment on column goods.strategy is
    'strategy of the purchases of this sale that name none; null as long as the guard is';
comment on column goods.fence_hold is
    'identity of the hold that raised the fence, since the tokens of two ensembles may be equal; null before the first';

comment on column goods.per_buyer is
    'most units of this sale that one buyer may have; null without such a limit';

-- Written in the deduction's own transaction: the orders of a sale are what was really sold, whatever a lost update did to
-- goods.on_hand.
create table orders (
    order_id   bigint generated always as identity primary key,
    strategy   text not null,
    instance   text not null,
    created_at timestamptz not null default clock_timestamp(),
    buyer      text
);
create index orders_by_buyer on orders (buyer) where buyer is not null;
comment on column orders.buyer is 'who has bought, as the request named it; null if it named nobody';

-- The lines of an order, one a SKU, which are sold together or not at all.
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
create index order_lines_by_sale on order_lines (goods_no, sale);
comment on column order_lines.remaining is
    'units left as the deduction saw it; null for a strategy that does not count them';
comment on column order_lines.token is
    'fencing token of the hold that wrote the line; null for a strategy without one';
comment on column order_lines.token_handover is
    'second part of the fencing token: hand-overs within a process since the grant';

-- What each buyer has of a sale with a limit. The primary key makes all purchases of one buyer meet at one row, and the row
-- refuses what is beyond the limit. Counting a buyer's orders first would not do: two requests that come at once both count none.
create table buyer_units (
    goods_no  bigint not null references goods,
    sale      bigint not null,
    buyer     text not null,
    units     bigint not null check (units > 0),
    units_max bigint not null,
    primary key (goods_no, sale, buyer),
    constraint buyer_units_within_limit check (units <= units_max)
);
comment on column buyer_units.units_max is 'goods.per_buyer of that sale';

-- The ledger: one row a sale. What it began with, less what its orders took, is what was left. The row of a sale is written in the
-- transaction that starts it, which also ends the sale before.
create table sales (
    goods_no      bigint not null references goods,
    sale          bigint not null,
    stock_initial bigint not null check (stock_initial >= 0),
    on_hand_final bigint check (on_hand_final >= 0),
    started_at    timestamptz,
    per_buyer     bigint,
    primary key (goods_no, sale)
);
comment on column sales.per_buyer is 'most units that one buyer may have of the sale; null without such a limit';
comment on column sales.on_hand_final is
    'units left when the next sale started, which ended this one; null as long as it is on';
comment on column sales.started_at is 'null for a sale that somebody started past the ledger';

-- The units of the sales that the family pg-units guards, a row each. They are free until an order has taken them, and no unit
-- comes back within a sale. They are written with the start of their sale, a million of them within seconds: so no column has a
-- foreign key, and each index has only one half of the rows. An index of all of them would double the time of a start.
create table units (
    goods_no bigint not null,
    sale     bigint not null,
    unit     integer not null,
    order_id bigint
);
create unique index units_free on units (goods_no, sale, unit) where order_id is null;
create unique index units_taken on units (goods_no, sale, unit) where order_id is not null;
comment on column units.unit is 'the units of a sale are numbered from 1';
comment on column units.order_id is 'the order that has taken the unit; null as long as it is free';

-- The stock of the sales that the family pg-buckets guards, divided into rows that different buyers can write at once. Written all
-- the time, so a page has room for new versions of its rows.
create table buckets (
    goods_no      bigint not null references goods,
    sale          bigint not null,
    bucket        integer not null,
    stock_initial bigint not null check (stock_initial >= 0),
    on_hand       bigint not null check (on_hand >= 0),
    primary key (goods_no, sale, bucket)
) with (fillfactor = 20);

-- The units left of the sale of a row of goods, wherever they lie. Units in rows of their own are counted up to at_most, or all of
-- them. The statistics of a table that was filled a moment ago are wrong, so they must not choose how it is read.
create function units_left(goods goods, at_most bigint default null) returns bigint
language plpgsql stable set enable_seqscan = off as $$
begin
    if goods.guard = 'pg-units' then
        return (
            select count(*) from (
                select from units
                where units.goods_no = goods.goods_no and units.sale = goods.sale and units.order_id is null
                limit at_most
            ) as free
        );
    elsif goods.guard = 'pg-buckets' then
        return (
            select coalesce(sum(buckets.on_hand), 0)::bigint from buckets
            where buckets.goods_no = goods.goods_no and buckets.sale = goods.sale
        );
    end if;
    return goods.on_hand;
end
$$;

comment on function units_left is
    'goods.on_hand, or what the rows of the sale say if it is sold by pg-units or pg-buckets, which do not write that column';

-- A key is written with the order that was sold under it. Refusals leave no key.
create table idempotency_keys (
    key      text primary key check (length(key) between 1 and 255),
    cart     jsonb not null,
    goods_no bigint not null references goods,
    sale     bigint not null,
    order_id bigint not null references orders,
    number   bigint not null unique generated always as identity
);
comment on column idempotency_keys.goods_no is 'the first SKU of the order, by number';
comment on column idempotency_keys.number is 'keys are numbered as they are written, so that the oldest are known';
comment on column idempotency_keys.sale is 'the sale of that SKU in which the order was sold';

-- Wishes to buy that wait for their decision, for the strategy pg-queue. A ticket is committed before its buyer is answered. The
-- worker that decides it writes its outcome in the transaction of its order. There is no foreign key to goods: it would lock the row of a hot
-- SKU for each ticket.
create table tickets (
    ticket     bigint generated always as identity primary key,
    goods_no   bigint not null,
    sale       bigint not null,
    quantity   bigint not null check (quantity > 0),
    buyer      text,
    key        text unique,
    created_at timestamptz not null default clock_timestamp(),
    outcome    text,
    order_id   bigint references orders,
    constraint tickets_sold_with_order check ((coalesce(outcome, '') in ('sold', 'repeated')) = (order_id is not null))
);
create index tickets_waiting on tickets (ticket) where outcome is null;
comment on column tickets.key is 'the idempotency key, as long as the ticket waits; then the order has it, or nobody';
comment on column tickets.outcome is
    'sold; repeated, if the key had that order already; or the problem of the refusal; null as long as it waits';

-- Orders that were promised at a gate in Redis, and that the database has refused. Their buyers may have been told "sold", so
-- somebody has to tell them otherwise. There is no row in orders.
create table refused_orders (
    order_id   bigint primary key,
    strategy   text not null,
    instance   text not null,
    goods_no   bigint not null,
    sale       bigint not null,
    quantity   bigint not null,
    buyer      text,
    key        text,
    reason     text not null,
    refused_at timestamptz not null default clock_timestamp()
);
comment on column refused_orders.reason is 'the problem that a refusal of the same kind would have shown';

-- One purchase in one statement, for the strategy pg-function. Takes the units of each line if enough are left, and writes
-- the order with its lines and its key, or writes nothing. The lines are in the order of their SKU numbers, as everywhere, so
-- that no two carts can wait for each other.
--
-- outcome: 'sold'; or 'sold-out', 'restarted' (the sale is over, or another family guards it) or 'over-limit' (in_limits has the
-- most units that one buyer may have) because of that line. If units were taken already, the function raises SD001 (sold out),
-- SD002 (restarted) or SD003 (over the limit), which gives them back; the message is the number of the line. A key that has an
-- order already raises 23505.
--
-- All waits for rows and for the key end in_wait_ms after the statement began. Postgres limits each wait by itself, so the
-- limit is set before each.
create function sell(
    in_goods bigint[], in_sales bigint[], in_quantities bigint[], in_limits bigint[],
    in_family text, in_strategy text, in_instance text, in_buyer text, in_key text, in_cart jsonb, in_wait_ms bigint,
    out outcome text, out line integer, out order_id bigint, out remaining bigint[]
) language plpgsql as $$
declare
    units_left bigint;
    wait_until timestamptz := statement_timestamp() + in_wait_ms * interval '1 millisecond';
begin
    -- Most of the buyers who have all that they may have are found here, before they wait for a row.
    select had.i, 'over-limit' into line, outcome
    from unnest(in_goods, in_sales, in_quantities, in_limits) with ordinality as had (goods_no, sale, quantity, units_max, i)
        join buyer_units using (goods_no, sale)
    where buyer_units.buyer = in_buyer and buyer_units.units + had.quantity > had.units_max
    order by had.i limit 1;
    if found then
        return;
    end if;

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

    for i in 1 .. cardinality(in_goods) loop
        continue when in_limits[i] is null;
        perform set_config(
            'lock_timeout', greatest(1, ceil(extract(epoch from wait_until - clock_timestamp()) * 1000))::bigint::text, true);
        insert into buyer_units (goods_no, sale, buyer, units, units_max)
        values (in_goods[i], in_sales[i], in_buyer, in_quantities[i], in_limits[i])
        on conflict (goods_no, sale, buyer) do update set units = buyer_units.units + excluded.units
        where buyer_units.units + excluded.units <= buyer_units.units_max;
        if not found then
            raise exception using errcode = 'SD003', message = i::text;
        end if;
    end loop;

    insert into orders (strategy, instance, buyer) values (in_strategy, in_instance, in_buyer)
    returning orders.order_id into order_id;
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

-- The ZooKeeper ensemble and chroot whose locks guard the sales: one row, written by the first instance.
create table lock_service (
    is_only  boolean primary key default true check (is_only),
    ensemble text not null,
    servers  text not null,
    since    timestamptz not null default clock_timestamp(),
    database text not null default gen_random_uuid()::text
);
comment on column lock_service.ensemble is 'identity that the ensemble keeps in the node /seckill/ensemble';
comment on column lock_service.servers is 'the connect string of the instance that wrote the row';
comment on column lock_service.database is
    'random identity of this database, by which zk-owner elects the owners of its SKUs; a copy of the database has the same one';

-- The age of the keys stands in the database, so it outlives the instances. It is measured by a clock of its own, which runs while
-- an instance does.
create table key_clock (
    is_only boolean primary key default true check (is_only),
    ms      bigint not null
);

insert into key_clock (ms) values (0);

comment on column key_clock.ms is
    'time that has passed, in milliseconds, as the instances have measured it; never more than has really passed';

create table key_marks (
    ms       bigint primary key,
    last_key bigint not null
);

comment on table key_marks is 'all keys up to the number last_key existed when the clock of the keys showed ms';
