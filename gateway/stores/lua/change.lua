-- Applies one transition to a request that exists; with submit.lua the only writer of a status.
-- Everything is checked before the first write, and a terminal transition frees memory first.
--
-- KEYS 1 record, 2 pending, 3 the agent's pending, 4 deadlines, 5 done, 6 events, 7 meta, 8 ingress,
--      9 reply stream of the message answered, 10 secret answers, then for each attached process its
--      waiting set and its reply stream, then dirty cards
-- ARGV 1 id, 2 agent, 3 revision before, 4 status after, 5 clock guard (before, after or ''),
--      6 policy generation or '', 7 '1' when the kill switch refuses it, 8 nonce or '', 9 event,
--      10 event data, 11 verb answered or '', 12 its nonce, 13 entry or '', 14 its process,
--      15 digest after, 16 decision or '', 17 secrets or '', 18 consumer or '',
--      19 '1' when the answer warns that it may have run, 20 number of attached processes,
--      then their tokens, number of fields to delete, their names, and fields with values to set
-- Returns {outcome, revision}.

local found = redis.call('HMGET', KEYS[1], 'rev', 'status', 'deadline', 'nonce')
local revision, was, deadline = found[1], found[2], found[3]
if not was then return {'gone'} end
if ARGV[8] ~= '' and found[4] == ARGV[8] then return {'replay', revision} end
if revision ~= ARGV[3] then return {'stale', revision} end
if ARGV[6] ~= '' and (redis.call('HGET', KEYS[7], 'generation') or '0') ~= ARGV[6] then
  return {'again', revision}
end
if ARGV[7] == '1' and redis.call('HEXISTS', KEYS[7], 'stopped') == 1 then
  return {'stopped', revision}
end
local now = now_ms()
if ARGV[5] == 'before' and now >= tonumber(deadline) then return {'late', revision} end
if ARGV[5] == 'after' and now < tonumber(deadline) then return {'early', revision} end

local status = ARGV[4]
local ends = was == 'pending' and status ~= 'pending'
local attached = tonumber(ARGV[20])
if ends then
  redis.call('ZREM', KEYS[2], ARGV[1])
  redis.call('ZREM', KEYS[3], ARGV[1])
  redis.call('ZREM', KEYS[4], ARGV[1])
  for i = 1, attached do redis.call('SREM', KEYS[9 + 2 * i], ARGV[1]) end
end
local at = 21 + attached
local deletes = tonumber(ARGV[at])
for i = at + 1, at + deletes do redis.call('HDEL', KEYS[1], ARGV[i]) end
revision = digits(tonumber(revision) + 1)
redis.call('HSET', KEYS[1], 'rev', revision, 'status', status)
for i = at + deletes + 1, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
if ends then redis.call('ZADD', KEYS[5], now, ARGV[1]) end
if ARGV[17] ~= '' then redis.call('SET', KEYS[10], ARGV[17], 'PX', digits(tonumber(deadline) - now)) end
event(KEYS[6], ARGV[9], now, ARGV[2], ARGV[1], revision, ARGV[10])

local function told(process, warn)
  local acts = status ~= 'approved' or process == ARGV[18]
  local secrets = acts and (ARGV[17] ~= '' and ARGV[17] or redis.call('GET', KEYS[10]))
  return state(ARGV[1], status, revision, ARGV[15], deadline, acts and ARGV[16], secrets, warn)
end
if ends then
  for i = 1, attached do
    reply(KEYS[10 + 2 * i], 'push', '', ARGV[1], 'state', told(ARGV[20 + i]))
  end
end
for i = 11 + 2 * attached, #KEYS do redis.call('ZADD', KEYS[i], now, ARGV[1]) end
if ARGV[13] ~= '' then
  reply(KEYS[9], ARGV[11], ARGV[12], ARGV[1], 'state', told(ARGV[14], ARGV[19] == '1'))
  forget(KEYS[8], ARGV[13])
end
return {'ok', revision}
