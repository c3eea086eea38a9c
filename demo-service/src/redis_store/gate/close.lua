-- Closes the gate of an earlier sale, because the next one has started. A gate that is not there stays so.
-- KEYS: the gate, the units of its buyers. ARGV: the sale that has started.
local sale = redis.call('hget', KEYS[1], 'sale')
if not sale or tonumber(sale) >= tonumber(ARGV[1]) then return 0 end
redis.call('del', KEYS[1], KEYS[2])
redis.call('hset', KEYS[1], 'sale', ARGV[1])
return 1
