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
    ms         bigint primary key,
    last_order bigint not null
);

comment on table key_marks is 'all keys of orders up to last_order existed when the clock of the keys showed ms';
