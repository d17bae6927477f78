-- Chooses the card of a reviewed request before it is shown: behind a duplicate, behind its agent's
-- overflow card, or its own. Idempotent.
--
-- KEYS 1 record, 2 the agent's load, then prefixes 3 outboxes, 4 records and 5 requests behind a card
-- ARGV 1 id, 2 agent, 3 likeness, or '' if it needs its own card, 4 ms per card or '' if none is posted,
--      5 most cards at once, 6 the outboxes of its cards
-- Returns the card that it is behind, or ''.

local now, slot = now_ms(), '=' .. ARGV[3]
local found = redis.call('HMGET', KEYS[1], 'status', 'behind', 'created')
if found[1] ~= 'pending' or found[2] then return found[2] or '' end
local lead = ARGV[3] ~= '' and redis.call('HGET', KEYS[2], slot)
if lead == ARGV[1] then return '' end
if lead and redis.call('HGET', KEYS[4] .. lead, 'status') == 'pending' then
  redis.call('HSET', KEYS[1], 'behind', lead)
  redis.call('ZADD', KEYS[5] .. lead, found[3], ARGV[1])
  redis.call('HINCRBY', KEYS[4] .. lead, 'alike', 1)
  mark(KEYS[3], redis.call('HGET', KEYS[4] .. lead, 'queues'), lead, now)
  return lead
end
local wait = 0
if ARGV[4] ~= '' then
  wait = spend_card(KEYS[2], now, tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[3] == '')
end
if ARGV[3] ~= '' then
  redis.call('HSET', KEYS[2], slot, ARGV[1])
  redis.call('HSET', KEYS[1], 'leads', ARGV[3])
end
if wait == 0 then return '' end
redis.call('HSET', KEYS[1], 'behind', '~' .. ARGV[2])
hold(KEYS[2], KEYS[5], KEYS[3], ARGV[6], ARGV[2], ARGV[1], found[3], now, wait)
return '~' .. ARGV[2]
