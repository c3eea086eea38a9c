-- Loads the gate of a sale, unless it is loaded, or has a later sale. Many buyers need several calls.
-- KEYS: the gate, the units of its buyers.
-- ARGV: the sale, the identity of the load, the units, the version of the row, the limit or nothing, 1 for the last call; then buyers,
-- each with its units.
local gate = redis.call('hmget', KEYS[1], 'sale', 'free')
local sale = tonumber(gate[1] or '0')
if sale > tonumber(ARGV[1]) or sale == tonumber(ARGV[1]) and gate[2] then return 0 end
if sale < tonumber(ARGV[1]) then
    redis.call('del', KEYS[1], KEYS[2])
    redis.call('hset', KEYS[1], 'sale', ARGV[1])
end
for i = 7, #ARGV, 2 do redis.call('hsetnx', KEYS[2], ARGV[i], ARGV[i + 1]) end
if ARGV[6] == '1' then
    redis.call('hset', KEYS[1], 'load', ARGV[2], 'free', ARGV[3], 'withheld', 0, 'pending', 0, 'in_database', ARGV[3],
        'version', ARGV[4])
    if ARGV[5] ~= '' then redis.call('hset', KEYS[1], 'limit', ARGV[5]) end
end
return 1
