-- Saves a grant once. A revoked grant stays revoked.
--
-- KEYS 1 grant, 2 all grants, 3 index by match, 4 the session's grants, 5 by expiry, 6 events, 7 meta,
--      8 by time of the expiry notice, then the outboxes of its cards
-- ARGV 1 id, 2 agent, 3 body, 4 expiry or '', 5 most uses or '', 6 '1' with a session, 7 limit of grants
--      in the index or '', 8 event data, 9 time of the expiry notice or '', 10 its id in outboxes,
--      11 '1' if it approves
-- Returns ok, exists, full, or stopped: while the kill switch is on, no approving grant is created.

if redis.call('EXISTS', KEYS[1]) == 1 then return 'exists' end
if ARGV[11] == '1' then
  local meta = redis.call('HMGET', KEYS[7], 'schema', 'stopped')
  if not meta[1] then return unknown() end
  if meta[2] then return 'stopped' end
end
if ARGV[7] ~= '' and redis.call('HLEN', KEYS[3]) >= tonumber(ARGV[7]) then return 'full' end
local now = now_ms()
make_grant({grant = KEYS[1], grants = KEYS[2], found = KEYS[3], in_session = ARGV[6] == '1' and KEYS[4],
  due = KEYS[5], events = KEYS[6], meta = KEYS[7], ending = KEYS[8]},
  {id = ARGV[1], agent = ARGV[2], body = ARGV[3], expires = ARGV[4], max = ARGV[5], ending = ARGV[9],
    event = ARGV[8]}, now)
for i = 9, #KEYS do redis.call('ZADD', KEYS[i], now, ARGV[10]) end
return 'ok'
