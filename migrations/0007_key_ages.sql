-- The age of a key is measured by the clock of the instance that deletes it, which does not jump as the clock of the
-- database may. Keys are found by their orders, whose numbers have an index.
drop index idempotency_keys_by_age;

alter table idempotency_keys drop column created_at;
