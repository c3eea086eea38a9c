-- The tokens of two ZooKeeper ensembles may be equal. So a hold has a random identity, too: only the hold that raised the fence
-- to its token may write under it.
alter table goods add column fence_hold bigint;

comment on column goods.fence_hold is
    'identity of the hold that raised the fence; null before the first, and after an instance of an earlier version';

-- The ZooKeeper ensemble and chroot whose locks guard the sales: one row, written by the first instance.
create table lock_service (
    is_only  boolean primary key default true check (is_only),
    ensemble text not null,
    servers  text not null,
    since    timestamptz not null default clock_timestamp()
);

comment on column lock_service.ensemble is 'identity that the ensemble keeps in the node /seckill/ensemble';
comment on column lock_service.servers is 'the connect string of the instance that wrote the row';
