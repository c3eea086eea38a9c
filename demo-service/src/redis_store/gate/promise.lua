-- Promises an order: checks the gate and the buyer, takes the units, and appends the order to the stream. Or changes nothing.
-- KEYS: the gate, the units of its buyers, the last number, the stream and, if the purchase has one, its key.
-- ARGV: the SKU, the sale, the units, the buyer, the key, the instance, the waiter, the time to live of the key in milliseconds.
if KEYS[5] then
    local known = redis.call('get', KEYS[5])
    if known then return {'known', known} end
end
local gate = redis.call('hmget', KEYS[1], 'sale', 'free', 'limit', 'load')
local sale = tonumber(gate[1] or '0')
if sale > tonumber(ARGV[2]) then return {'restarted'} end
if sale < tonumber(ARGV[2]) or not gate[2] then return {'not-loaded'} end
local quantity = tonumber(ARGV[3])
if tonumber(gate[2]) < quantity then return {'sold-out'} end
if gate[3] then
    local had = tonumber(redis.call('hget', KEYS[2], ARGV[4]) or '0')
    if had + quantity > tonumber(gate[3]) then return {'over-limit'} end
end
-- The number of an order is the time in microseconds, or one more than the last number if that is higher. So a server that has
-- forgotten the last number, or has an older one, repeats none unless its clock was set back. Below 2^53 until the year 2255: each
-- program reads it exactly.
local time = redis.call('time')
local last = tonumber(redis.call('get', KEYS[3]) or '0')
local order = string.format('%.0f', math.max(tonumber(time[1]) * 1000000 + tonumber(time[2]), last + 1))
local function take(sign)
    local remaining = redis.call('hincrby', KEYS[1], 'free', sign * -quantity)
    redis.call('hincrby', KEYS[1], 'pending', sign * quantity)
    if gate[3] then redis.call('hincrby', KEYS[2], ARGV[4], sign * quantity) end
    return remaining
end
-- The first write. A server without memory refuses it, and nothing is done.
local remaining = take(1)
-- A script is not rolled back. So if the user has no right to append, the units are given back.
local appended = redis.pcall('xadd', KEYS[4], '*', 'order', order, 'goods', ARGV[1], 'sale', ARGV[2], 'quantity', ARGV[3],
    'remaining', remaining, 'buyer', ARGV[4], 'key', ARGV[5], 'instance', ARGV[6], 'waiter', ARGV[7], 'load', gate[4])
if type(appended) == 'table' then
    take(-1)
    return appended
end
redis.call('set', KEYS[3], order)
if KEYS[5] then
    redis.call('set', KEYS[5], table.concat({order, ARGV[1], ARGV[2], ARGV[3], remaining, ARGV[6]}, ' '), 'px', ARGV[8])
end
return {'promised', order, remaining}
