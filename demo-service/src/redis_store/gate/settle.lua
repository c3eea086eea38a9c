-- Acknowledges orders that are decided, and deletes their messages. After a refusal, corrects the gate by what the database has.
-- KEYS: the stream, the gate, the units of its buyers; then the keys of refused orders.
-- ARGV: the group, the sale of the row, its version, its units; then for each message its identity, its load, its units, its buyer,
-- its order, and which of the keys is to be freed: 0 for none, and -1 for an order that was written.
local gate = redis.call('hmget', KEYS[2], 'sale', 'load', 'limit')
local settled = 0
local changed = {pending = 0, free = 0}
local is_refused = false
for i = 5, #ARGV, 6 do
    -- Another consumer may have settled it.
    if redis.call('xack', KEYS[1], ARGV[1], ARGV[i]) == 1 then
        settled = settled + 1
        redis.call('xdel', KEYS[1], ARGV[i])
        local refused = tonumber(ARGV[i + 5]) >= 0
        is_refused = is_refused or refused
        if gate[2] and gate[2] == ARGV[i + 1] then
            changed.pending = changed.pending + tonumber(ARGV[i + 2])
            if refused then
                changed.free = changed.free + tonumber(ARGV[i + 2])
                if gate[3] then redis.call('hincrby', KEYS[3], ARGV[i + 3], '-' .. ARGV[i + 2]) end
            end
        end
        local key = KEYS[3 + tonumber(ARGV[i + 5])]
        if tonumber(ARGV[i + 5]) > 0 then
            local known = redis.call('get', key)
            if known and string.find(known, ARGV[i + 4] .. ' ', 1, true) == 1 then redis.call('del', key) end
        end
    end
end
if not gate[2] or gate[1] ~= ARGV[2] then return settled end
-- A consumer that is late must not bring an earlier state of the row back.
if tonumber(ARGV[3]) >= tonumber(redis.call('hget', KEYS[2], 'version')) then
    redis.call('hset', KEYS[2], 'version', ARGV[3], 'in_database', ARGV[4])
end
local now = redis.call('hmget', KEYS[2], 'free', 'withheld', 'pending', 'in_database')
local pending = math.max(tonumber(now[3]) - changed.pending, 0)
local free, withheld = tonumber(now[1]) + changed.free, tonumber(now[2])
-- Only a refusal shows that the row may have too few units. Then nothing is promised that the row does not have beside all orders under
-- way. The units of an order count twice if it is written and not settled yet: what is withheld for it comes back when it is settled.
if is_refused or withheld > 0 then
    local wanted = free + withheld
    free = math.max(math.min(wanted, tonumber(now[4]) - pending), 0)
    withheld = wanted - free
end
redis.call('hset', KEYS[2], 'pending', string.format('%.0f', pending), 'free', string.format('%.0f', free), 'withheld',
    string.format('%.0f', withheld))
return settled
