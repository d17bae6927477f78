-- Ends a grant. From now on no script lets it decide. Its content and the reason stay for its cards and the
-- audit log, until both are deleted.
--
-- KEYS 1 grant, 2 all grants, 3 index by match, 4 the session's grants, 5 by expiry, 6 events, 7 meta,
--      8 by time of the expiry notice, 9 ended grants of its kind, then the outboxes of its cards
-- ARGV 1 id, 2 agent, 3 event data, 4 '1' to end it only if it expired or is used up, 5 why, 6 by whom,
--      7 '1' to post a notice with its cards, 8 its id in outboxes
-- Returns 1 if it was active.

local found = redis.call('HGET', KEYS[1], 'body')
if not found then return 0 end
local now = now_ms()
if ARGV[4] == '1' and usable(KEYS[1], now) then return 0 end
redis.call('HDEL', KEYS[1], 'body')
redis.call('HSET', KEYS[1], 'was', found, 'why', ARGV[5], 'by', ARGV[6], 'ended', digits(now))
redis.call('HINCRBY', KEYS[1], 'gen', 1)
if ARGV[7] == '1' then redis.call('HINCRBY', KEYS[1], 'notices', 1) end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('SREM', KEYS[4], ARGV[1])
redis.call('ZREM', KEYS[5], ARGV[1])
redis.call('ZREM', KEYS[8], ARGV[1])
redis.call('ZADD', KEYS[9], now, ARGV[1])
-- A grant that expired decides nothing wherever it was read, because its expiry was read with it.
local expires = tonumber(redis.call('HGET', KEYS[1], 'expires') or '')
if not expires or now < expires then redis.call('HINCRBY', KEYS[7], 'generation', 1) end
event(KEYS[6], 'grant_ended', now, ARGV[2], '', '0', ARGV[3])
for i = 10, #KEYS do redis.call('ZADD', KEYS[i], now, ARGV[8]) end
return 1
