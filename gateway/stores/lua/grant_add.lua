-- Writes a remembered decision, once; a grant that was taken back stays so.
--
-- KEYS 1 grant, 2 all grants, 3 index by what it covers, 4 the session's grants, 5 by expiry,
--      6 events, 7 meta, 8 by when their end is announced, then the outboxes of its cards
-- ARGV 1 id, 2 agent, 3 body, 4 expiry or '', 5 most uses or '', 6 '1' with a session, 7 most grants
--      in the index or '', 8 event data, 9 when its end is announced or '', 10 what outboxes call it,
--      11 '1' when it approves
-- Returns ok, exists, full, or stopped: while the kill switch is on nothing is made that approves.

if redis.call('EXISTS', KEYS[1]) == 1 then return 'exists' end
if ARGV[11] == '1' then
  local meta = redis.call('HMGET', KEYS[7], 'schema', 'stopped')
  if not meta[1] then return unknown() end
  if meta[2] then return 'stopped' end
end
if ARGV[7] ~= '' and redis.call('HLEN', KEYS[3]) >= tonumber(ARGV[7]) then return 'full' end
local now = now_ms()
redis.call('HSET', KEYS[1], 'body', ARGV[3], 'expires', ARGV[4], 'max', ARGV[5], 'used', '0',
  'gen', '1')
redis.call('ZADD', KEYS[2], now, ARGV[1])
redis.call('HSET', KEYS[3], ARGV[1], ARGV[3])
if ARGV[6] == '1' then redis.call('SADD', KEYS[4], ARGV[1]) end
if ARGV[4] ~= '' then
  redis.call('ZADD', KEYS[5], ARGV[4], ARGV[1])
end
if ARGV[9] ~= '' then
  redis.call('ZADD', KEYS[8], ARGV[9], ARGV[1])
end
redis.call('HINCRBY', KEYS[7], 'generation', 1)
event(KEYS[6], 'grant_made', now, ARGV[2], '', '0', ARGV[8])
for i = 9, #KEYS do redis.call('ZADD', KEYS[i], now, ARGV[10]) end
return 'ok'
