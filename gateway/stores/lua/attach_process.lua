-- Attaches a process to requests, renews its lease, and answers once per request. Used for sync, and for a
-- submit that was seen before.
--
-- KEYS 1 processes, 2 the set of requests that the process waits for, 3 ingress, 4 reply stream, 5 events,
--      6 prefix of the outboxes, 7 meta, then for each request its record and its secret answers
-- ARGV 1 agent, 2 process, 3 verb, 4 nonce, 5 entry or '', 6 lease in ms, 7 '1' to do nothing unless the
--      process has a lease, 8 since when the agent owns its name, 9 the process in audit events,
--      10... request ids
-- Returns for each id: '' unknown or another agent's, '1' attached before, '2' attached now. Returns
-- 'lapsed' alone if nothing was done.

-- The script that ends a request notifies each attached process.
local MOST_ATTACHED = 32

local now = now_ms()
local over_redis = ARGV[5] ~= ''
local answers = {}
if ARGV[7] == '1' then
  local lease = redis.call('ZSCORE', KEYS[1], ARGV[1] .. ' ' .. ARGV[2])
  if not lease or tonumber(lease) <= now then return {'lapsed'} end
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[6]), ARGV[1] .. ' ' .. ARGV[2])

local function attach(key, id, found)
  local attached = found[5] or ''
  local change = {}
  if over_redis and not string.find(' ' .. attached .. ' ', ' ' .. ARGV[2] .. ' ', 1, true) then
    if select(2, string.gsub(attached, '%S+', '')) >= MOST_ATTACHED then return '', found[3] end
    change = {'attached', attached == '' and ARGV[2] or attached .. ' ' .. ARGV[2]}
  end
  if found[6] == 'false' and found[7] == ARGV[2] then
    redis.call('HDEL', key, 'waiting')
    -- Every posted card says that nobody waits.
    for queue in string.gmatch(found[11] or '', '%S+') do
      redis.call('ZADD', KEYS[6] .. queue, now, id)
    end
  elseif #change == 0 then
    return '1', found[3]
  end
  local revision = digits(tonumber(found[3]) + 1)
  redis.call('HSET', key, 'rev', revision, unpack(change))
  event(KEYS[5], 'attached', now, ARGV[1], id, revision, '{"process":"' .. ARGV[9] .. '"}')
  return '2', revision
end

local meta = redis.call('HMGET', KEYS[7], 'schema', 'stopped')
local stopped = not meta[1] or meta[2]
for i = 1, (#KEYS - 7) / 2 do
  local id, key = ARGV[9 + i], KEYS[6 + 2 * i]
  local found = redis.call('HMGET', key, 'agent', 'status', 'rev', 'digest', 'attached', 'waiting',
    'process', 'deadline', 'decision', 'consumers', 'queues', 'created', 'number')
  local answer, revision = '', found[3]
  if found[1] == ARGV[1] and tonumber(found[12]) >= tonumber(ARGV[8]) then
    if found[2] == 'pending' then
      answer, revision = attach(key, id, found)
      if answer ~= '' then redis.call('SADD', KEYS[2], id) end
    else
      answer = '1'
    end
    if over_redis and answer == '' then
      reply(KEYS[4], ARGV[3], ARGV[4], id, 'error', '{"code":"conflict","detail":"too many processes wait for it"}')
    elseif over_redis then
      local consumer = found[10] and string.match(found[10], '%S+$')
      local acts = found[2] ~= 'approved' or (consumer == ARGV[2] and not stopped)
      local warn = acts and consumer and string.find(found[10], ' ', 1, true)
      reply(KEYS[4], ARGV[3], ARGV[4], id, 'state', state(id, found[2], revision, found[4], found[8],
        acts and found[9], acts and redis.call('GET', KEYS[7 + 2 * i]), warn,
        found[2] == 'pending' and found[13]))
    end
  elseif over_redis then
    reply(KEYS[4], ARGV[3], ARGV[4], id, 'error', '{"code":"not_found","detail":"no such request"}')
  end
  answers[i] = answer
end
if over_redis then
  if #KEYS == 7 then reply(KEYS[4], ARGV[3], ARGV[4], '', 'state', '{}') end
  forget(KEYS[3], ARGV[5])
end
return answers
