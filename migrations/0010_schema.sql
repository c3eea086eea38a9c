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
    units     bigint not null check (units >= 0),
    units_max bigint not null,
    primary key (goods_no, sale, buyer),
    constraint buyer_units_within_limit check (units <= units_max)
);
comment on column buyer_units.units is 'units ordered, and units held by reservations that have not ended';
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

-- The reservations of the sales that the family pg-reserve guards. goods.on_hand has the free units only: free + held + ordered is
-- the stock of the sale, in every snapshot. Each reservation ends exactly once: it is confirmed, cancelled or expired.
--
-- All functions lock in one order: the row of the SKU, then its reservations, then what their buyers have, then a key. A confirmation
-- only turns held units into ordered ones, so it does not need the row of the SKU, for which the buyers queue.
create table reservations (
    reservation_id bigint generated always as identity primary key,
    goods_no       bigint not null references goods,
    sale           bigint not null,
    quantity       bigint not null check (quantity > 0),
    buyer          text,
    key            text unique check (length(key) between 1 and 255),
    state          text not null default 'held' check (state in ('held', 'confirmed', 'cancelled', 'expired')),
    expires_at     timestamptz not null,
    ended_at       timestamptz,
    order_id       bigint references orders,
    constraint reservations_held_until_end check ((state = 'held') = (ended_at is null)),
    constraint reservations_confirmed_by_order check ((state = 'confirmed') = (order_id is not null))
);
create index reservations_of_sale on reservations (goods_no, sale, expires_at) where state = 'held';
create index reservations_due on reservations (expires_at) where state = 'held';
comment on column reservations.key is
    'idempotency key of the reservation; null without one, or if a later purchase has taken the key over after the end';
comment on column reservations.expires_at is
    'from then on it cannot be confirmed, by the clock of the database; it ends a little later, when somebody notices';
comment on column reservations.ended_at is
    'null while it is held; before expires_at for one that expired because the next sale started';

-- The units left of the sale of a row of goods, wherever they lie. Units in rows of their own are counted up to at_most, or all of
-- them. The statistics of a table that was filled a moment ago are wrong, so they must not choose how it is read.
create function units_left(goods goods, at_most bigint default null) returns bigint
language plpgsql stable set enable_seqscan = off as $$
declare
    due_at timestamptz := clock_timestamp();
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
    elsif goods.guard = 'pg-reserve' then
        return goods.on_hand + (
            select coalesce(sum(reservations.quantity), 0)::bigint from reservations
            where reservations.goods_no = goods.goods_no and reservations.sale = goods.sale and state = 'held'
                and expires_at <= due_at
        );
    end if;
    return goods.on_hand;
end
$$;

comment on function units_left is
    'goods.on_hand, or what the rows of the sale say if it is sold by pg-units or pg-buckets, which do not write that column; by '
    'pg-reserve with the units of reservations that are past their time, which the next buyer gets';

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
create index tickets_waiting on tickets (goods_no, ticket) where outcome is null;
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

-- Ends held reservations of a sale, whose rows and whose SKU the caller has locked. Gives their units back.
create function end_reservations(in_goods bigint, in_sale bigint, in_reservations bigint[], in_state text) returns void
language plpgsql set enable_seqscan = off as $$
begin
    with ended as (
        update reservations set state = in_state, ended_at = clock_timestamp()
        where reservation_id = any (in_reservations) and state = 'held'
        returning quantity, buyer
    ), of_buyers as (
        update buyer_units set units = buyer_units.units - had.units
        from (select buyer, sum(quantity)::bigint as units from ended where buyer is not null group by buyer) as had
        where buyer_units.goods_no = in_goods and buyer_units.sale = in_sale and buyer_units.buyer = had.buyer
    )
    update goods set on_hand = goods.on_hand + (select coalesce(sum(quantity), 0)::bigint from ended)
    where goods.goods_no = in_goods and goods.sale = in_sale;
end
$$;

comment on function end_reservations is 'ends held reservations and gives their units back';

-- Ends reservations of a sale that are past their time: at most in_max, the oldest first. With in_buyer it ends only reservations of one
-- buyer, and with in_reservation only that one. With in_waits it waits for confirmations under way, which may turn out to have come in time.
-- Otherwise it passes them over. Returns how many have ended. The units of a sale that is over are not given back.
create function expire_reservations(
    in_goods bigint, in_sale bigint, in_max bigint, in_waits boolean, in_buyer text default null, in_reservation bigint default null
) returns bigint language plpgsql set enable_seqscan = off as $$
declare
    due_at timestamptz;
    due bigint[];
begin
    -- Whatever its sale is: a sale that somebody has started by hand has ended none of them.
    perform from goods where goods.goods_no = in_goods for no key update;
    -- Read under the lock, so the time of the wait counts.
    due_at := clock_timestamp();
    if in_waits then
        select array_agg(locked.reservation_id) into due from (
            select reservation_id from reservations
            where goods_no = in_goods and sale = in_sale and state = 'held' and expires_at <= due_at
                and (in_buyer is null or buyer = in_buyer) and (in_reservation is null or reservation_id = in_reservation)
            order by expires_at limit in_max for update
        ) as locked;
    else
        select array_agg(locked.reservation_id) into due from (
            select reservation_id from reservations
            where goods_no = in_goods and sale = in_sale and state = 'held' and expires_at <= due_at
            order by expires_at limit in_max for update skip locked
        ) as locked;
    end if;
    if due is null then
        return 0;
    end if;
    perform end_reservations(in_goods, in_sale, due, 'expired');
    return cardinality(due);
end
$$;

-- Ends all reservations of a sale that is ending, and gives their units back. The caller has locked the row of the SKU, so no new ones
-- come. Waits for confirmations under way.
create function end_reservations_of_sale(in_goods bigint, in_sale bigint) returns void
language plpgsql set enable_seqscan = off as $$
declare
    held bigint[] := array(
        select reservation_id from reservations where goods_no = in_goods and sale = in_sale and state = 'held'
        order by expires_at for update);
begin
    if cardinality(held) > 0 then
        perform end_reservations(in_goods, in_sale, held, 'expired');
    end if;
end
$$;

comment on function end_reservations_of_sale is 'ends all reservations of a sale, and gives their units back';
comment on function expire_reservations is 'ends reservations of a sale that are past their time, and gives their units back';

-- What the key of a purchase already stands for. outcome: null for nothing, 'repeated' for a reservation or an order of it, 'reused' for
-- a purchase of something else. By in_once the purchase is made in one request: then a reservation that has ended without an order does
-- not count, because a refusal leaves no key.
create function find_reservation(
    in_key text, in_goods bigint, in_quantity bigint, in_once boolean, out outcome text, out reservation_id bigint
) language plpgsql set enable_seqscan = off as $$
declare
    known reservations;
begin
    if in_key is null then
        return;
    end if;
    select * into known from reservations where reservations.key = in_key;
    if found and not (in_once and (known.state <> 'held' or known.expires_at <= clock_timestamp())) then
        if known.goods_no = in_goods and known.quantity = in_quantity then
            outcome := 'repeated';
            reservation_id := known.reservation_id;
        else
            outcome := 'reused';
        end if;
        return;
    end if;
    perform from idempotency_keys where idempotency_keys.key = in_key;
    if found then
        outcome := case when in_once then 'repeated' else 'reused' end;
    end if;
end
$$;

comment on function find_reservation is 'the reservation or the order under an idempotency key';

-- Takes free units of a sale and holds them for in_hold_ms, for the strategy pg-reserve. If too few are free, first frees the units of
-- reservations that are past their time.
--
-- outcome: 'held'; 'repeated' (the key has a reservation, or has an order if reservation_id is null) or 'reused' (the key stands for
-- another purchase); or nothing was written: 'sold-out', 'over-limit', 'restarted' (the sale is over, or another family guards it).
-- The function raises SD003 (over the limit) or SD004 (another request has just come under this key, so ask again) if units were
-- taken already, which gives them back. in_once is as in find_reservation. All waits end in_wait_ms after the statement began.
create function reserve(
    in_goods bigint, in_sale bigint, in_quantity bigint, in_limit bigint, in_family text, in_buyer text, in_key text,
    in_once boolean, in_hold_ms bigint, in_wait_ms bigint,
    out outcome text, out reservation_id bigint, out expires_at timestamptz
) language plpgsql set enable_seqscan = off as $$
declare
    wait_until timestamptz := statement_timestamp() + in_wait_ms * interval '1 millisecond';
    due_at timestamptz;
    seen record;
begin
    select found.outcome, found.reservation_id into outcome, reservation_id
    from find_reservation(in_key, in_goods, in_quantity, in_once) as found;
    if outcome is not null then
        return;
    end if;
    perform set_config(
        'lock_timeout', greatest(1, ceil(extract(epoch from wait_until - clock_timestamp()) * 1000))::bigint::text, true);

    if in_limit is not null then
        -- A buyer is not kept out by units that it has let expire.
        for tries in 1 .. 2 loop
            perform from buyer_units
            where buyer_units.goods_no = in_goods and buyer_units.sale = in_sale and buyer_units.buyer = in_buyer
                and buyer_units.units + in_quantity > buyer_units.units_max;
            exit when not found;
            if tries = 2 or expire_reservations(in_goods, in_sale, 1000, true, in_buyer) = 0 then
                select found.outcome, found.reservation_id into outcome, reservation_id
                from find_reservation(in_key, in_goods, in_quantity, in_once) as found;
                outcome := coalesce(outcome, 'over-limit');
                return;
            end if;
        end loop;
    end if;

    loop
        update goods set on_hand = goods.on_hand - in_quantity
        where goods.goods_no = in_goods and goods.sale = in_sale and goods.guard = in_family and goods.on_hand >= in_quantity;
        exit when found;
        -- Both are seen in one snapshot: units that are freed meanwhile are either free or past their time. Most buyers of a SKU that is
        -- sold out are refused here, and wait for no row.
        due_at := clock_timestamp();
        select goods.on_hand, exists (
            select from reservations
            where reservations.goods_no = in_goods and reservations.sale = in_sale and reservations.state = 'held'
                and reservations.expires_at <= due_at
        ) as has_due into seen
        from goods where goods.goods_no = in_goods and goods.sale = in_sale and goods.guard = in_family;
        if not found then
            outcome := 'restarted';
            return;
        end if;
        continue when seen.on_hand >= in_quantity;
        if seen.has_due then
            -- None ends if confirmations under way have come in time, or if another buyer was faster. Then the next look tells.
            perform expire_reservations(in_goods, in_sale, 1000, true);
            continue;
        end if;
        select found.outcome, found.reservation_id into outcome, reservation_id
        from find_reservation(in_key, in_goods, in_quantity, in_once) as found;
        outcome := coalesce(outcome, 'sold-out');
        return;
    end loop;

    if in_limit is not null then
        insert into buyer_units (goods_no, sale, buyer, units, units_max)
        values (in_goods, in_sale, in_buyer, in_quantity, in_limit)
        on conflict (goods_no, sale, buyer) do update set units = buyer_units.units + excluded.units
        where buyer_units.units + excluded.units <= buyer_units.units_max;
        if not found then
            -- The units may be those of another request under this key, which had the row before. Then it is not too many.
            perform from find_reservation(in_key, in_goods, in_quantity, in_once) as found where found.outcome is not null;
            raise exception using errcode = case when found then 'SD004' else 'SD003' end, message = '1';
        end if;
    end if;
    if in_once and in_key is not null then
        update reservations set key = null
        where reservations.key = in_key
            and (reservations.state <> 'held' or reservations.expires_at <= clock_timestamp());
    end if;
    insert into reservations (goods_no, sale, quantity, buyer, key, expires_at)
    values (in_goods, in_sale, in_quantity, in_buyer, in_key, clock_timestamp() + in_hold_ms * interval '1 millisecond')
    on conflict (key) do nothing
    returning reservations.reservation_id, reservations.expires_at into reservation_id, expires_at;
    if not found then
        raise exception using errcode = 'SD004', message = '1';
    end if;
    outcome := 'held';
end
$$;

comment on function reserve is 'holds units of a sale for a buyer, or tells why not; see the strategy pg-reserve';

-- Turns a reservation into an order. The clock of the database decides under the lock of the reservation whether it is in time,
-- whether or not anybody has noticed before. One that is too late has ended when this is told, so it stays too late.
--
-- outcome: 'sold' or 'repeated' with the order; 'expired', 'sale-over' (the next sale has ended it), 'cancelled', 'unknown'; 'due' if
-- its time has passed while this waited for its row: ask again.
create function confirm_reservation(
    in_reservation bigint, in_strategy text, in_instance text, in_wait_ms bigint,
    out outcome text, out order_id bigint, out goods_no bigint, out sale bigint, out quantity bigint
) language plpgsql set enable_seqscan = off as $$
declare
    held reservations;
begin
    select * into held from reservations where reservation_id = in_reservation;
    if not found then
        outcome := 'unknown';
        return;
    end if;
    perform set_config('lock_timeout', greatest(1, in_wait_ms)::text, true);
    if held.state = 'held' and held.expires_at <= clock_timestamp() then
        perform expire_reservations(held.goods_no, held.sale, 1, true, null, in_reservation);
    end if;
    select * into held from reservations where reservation_id = in_reservation for update;
    goods_no := held.goods_no;
    sale := held.sale;
    quantity := held.quantity;
    if held.state <> 'held' then
        order_id := held.order_id;
        outcome := case
            when held.state = 'confirmed' then 'repeated'
            when held.state = 'expired' and held.ended_at < held.expires_at then 'sale-over'
            else held.state end;
        return;
    end if;
    if held.expires_at <= clock_timestamp() then
        outcome := 'due';
        return;
    end if;
    insert into orders (strategy, instance, buyer) values (in_strategy, in_instance, held.buyer)
    returning orders.order_id into order_id;
    insert into order_lines (order_id, goods_no, sale, quantity)
    values (confirm_reservation.order_id, held.goods_no, held.sale, held.quantity);
    update reservations set state = 'confirmed', ended_at = clock_timestamp(), order_id = confirm_reservation.order_id
    where reservation_id = in_reservation;
    if held.key is not null then
        insert into idempotency_keys (key, cart, goods_no, sale, order_id)
        values (held.key, jsonb_build_array(jsonb_build_array(held.goods_no, held.quantity)), held.goods_no, held.sale,
            confirm_reservation.order_id);
    end if;
    outcome := 'sold';
end
$$;

comment on function confirm_reservation is 'sells what a reservation holds, if it is in time';

-- Gives the units of a reservation back. outcome: 'cancelled', 'repeated', 'expired', 'confirmed', 'unknown'.
create function cancel_reservation(in_reservation bigint, in_wait_ms bigint, out outcome text)
language plpgsql set enable_seqscan = off as $$
declare
    held reservations;
begin
    select * into held from reservations where reservation_id = in_reservation;
    if not found then
        outcome := 'unknown';
        return;
    end if;
    if held.state = 'held' then
        perform set_config('lock_timeout', greatest(1, in_wait_ms)::text, true);
        perform from goods where goods.goods_no = held.goods_no for no key update;
        select * into held from reservations where reservation_id = in_reservation for update;
    end if;
    if held.state = 'held' then
        outcome := case when held.expires_at <= clock_timestamp() then 'expired' else 'cancelled' end;
        perform end_reservations(held.goods_no, held.sale, array[in_reservation], outcome);
    else
        outcome := case when held.state = 'cancelled' then 'repeated' else held.state end;
    end if;
end
$$;

comment on function cancel_reservation is 'gives the units of a reservation back';

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
