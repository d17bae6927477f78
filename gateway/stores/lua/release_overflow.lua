-- Gives own cards to requests behind their agent's overflow card, oldest first, within the agent's budget.
--
-- KEYS 1 those behind it, 2 the agent's load, 3 events, then prefixes 4 outboxes and 5 records
-- ARGV 1 agent, 2 ms per card, 3 most cards at once
-- Returns the ms until the next card, or -1 if there is none.

local now = now_ms()
while true do
  local id = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
  if not id then return -1 end
  local wait = spend_card(KEYS[2], now, tonumber(ARGV[2]), tonumber(ARGV[3]), false)
  if wait > 0 then return math.ceil(wait) end
  redis.call('ZREM', KEYS[1], id)
  recount(KEYS[2], KEYS[4], show(KEYS[5] .. id, id, KEYS[3], KEYS[4], now), ARGV[1], now)
end
