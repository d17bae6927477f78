-- Saves one copy of a card if it is unchanged since it was read and the request still exists.
--
-- KEYS 1 copies, 2 record. ARGV 1 key, 2 JSON before or '', 3 JSON after, or '' to delete. Returns 1 if saved.

if redis.call('EXISTS', KEYS[2]) == 0 then return 0 end
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return 0 end
if ARGV[3] == '' then redis.call('HDEL', KEYS[1], ARGV[1])
else redis.call('HSET', KEYS[1], ARGV[1], ARGV[3]) end
return 1
