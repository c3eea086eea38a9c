-- Two databases may use one ZooKeeper ensemble and chroot. The owners of the strategy zk-owner are elected for each database, by its
-- identity. Otherwise one instance would hand its buyers over to the owner of another database's stock.
alter table lock_service add column database text not null default gen_random_uuid()::text;

comment on column lock_service.database is 'random identity of this database; a copy of the database has the same one';
