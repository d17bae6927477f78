-- Moves the requests behind one that no longer leads to a new leading request: one that came meanwhile, or
-- the oldest of them, which then gets its own card.
--
-- KEYS 1 record, 2 those behind it, 3 the agent's load, 4 events, then prefixes 5 outboxes, 6 records and
--      7 requests behind a card
-- ARGV 1 id, 2 agent, 3 likeness, 4 ms per card or '' if none is posted, 5 most cards at once
-- Returns how many they were.

local now, slot = now_ms(), '=' .. ARGV[3]
local next_ = redis.call('HGET', KEYS[3], slot)
local ids = redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')
redis.call('DEL', KEYS[2])
redis.call('HDEL', KEYS[1], 'alike')
if #ids == 0 then return 0 end

local first = 1
if not next_ then
  next_, first = ids[1], 3
  redis.call('HSET', KEYS[3], slot, next_)
  redis.call('HSET', KEYS[6] .. next_, 'leads', ARGV[3])
  local record, wait = KEYS[6] .. next_, 0
  if ARGV[4] ~= '' then wait = spend_card(KEYS[3], now, tonumber(ARGV[4]), tonumber(ARGV[5]), false) end
  if wait > 0 then
    redis.call('HSET', record, 'behind', '~' .. ARGV[2])
    local queues = redis.call('HGET', record, 'queues')
    hold(KEYS[3], KEYS[7], KEYS[5], queues, ARGV[2], next_, ids[2], now, wait)
  else
    show(record, next_, KEYS[4], KEYS[5], now)
  end
end
for i = first, #ids, 2 do
  redis.call('ZADD', KEYS[7] .. next_, ids[i + 1], ids[i])
  redis.call('HSET', KEYS[6] .. ids[i], 'behind', next_)
end
redis.call('HSET', KEYS[6] .. next_, 'alike', redis.call('ZCARD', KEYS[7] .. next_))
mark(KEYS[5], redis.call('HGET', KEYS[6] .. next_, 'queues'), next_, now)
return #ids / 2
