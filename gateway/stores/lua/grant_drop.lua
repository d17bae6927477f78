-- Takes a remembered decision back. From here on no script lets it decide anything.
--
-- KEYS 1 grant, 2 all grants, 3 index by what it covers, 4 the session's grants, 5 by expiry,
--      6 events, 7 meta
-- ARGV 1 id, 2 agent, 3 event data, 4 '1' only if it has expired or is used up, 5 ms to remember that
--      it is gone
-- Returns 1 when it was there.

local found = redis.call('HMGET', KEYS[1], 'body', 'expires', 'max', 'used')
if not found[1] then return 0 end
local now = now_ms()
if ARGV[4] == '1' and usable(KEYS[1], now) then return 0 end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'gone', '1')
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('SREM', KEYS[4], ARGV[1])
redis.call('ZREM', KEYS[5], ARGV[1])
redis.call('HINCRBY', KEYS[7], 'generation', 1)
event(KEYS[6], 'grant_ended', now, ARGV[2], '', '0', ARGV[3])
return 1
