-- Deletes consumers that have no order and have asked for none for a while: their instances are gone. One that lives is made again when
-- it asks.
-- KEYS: the stream. ARGV: the group, the while in milliseconds.
local deleted = 0
for _, consumer in ipairs(redis.call('xinfo', 'consumers', KEYS[1], ARGV[1])) do
    local facts = {}
    for i = 1, #consumer, 2 do facts[consumer[i]] = consumer[i + 1] end
    if facts.pending == 0 and facts.idle > tonumber(ARGV[2]) then
        redis.call('xgroup', 'delconsumer', KEYS[1], ARGV[1], facts.name)
        deleted = deleted + 1
    end
end
return deleted
