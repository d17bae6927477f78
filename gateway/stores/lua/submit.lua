-- Creates a request, pending or already decided by policy; the only birth of a status.
--
-- KEYS 1 record, 2 pending, 3 the agent's pending, 4 deadlines, 5 done, 6 events, 7 meta, 8 sessions,
--      9 what the process waits for, 10 processes, 11 ingress, 12 reply stream, 13 the grant that decided,
--      14... dirty cards
-- ARGV 1 id, 2 agent, 3 session, 4 digest, 5 status, 6 policy generation, 7 timeout in ms,
--      8 arrival in ms or '', 9 waiting process or '', 10 nonce, 11 entry or '', 12 lease in ms,
--      13 event data, 14 data of the terminal event or '', 15 decision or '', 16 verb answered,
--      17 id of the grant that decided or '', 18 when the decision expires or '',
--      19... fields and values
-- Returns {outcome, created, deadline}; created is the server's time also when nothing was written.

-- So much earlier than asked a signed decision may expire, before the gateway has to sign another.
local CLOCK_SLACK_MS = 1000

local status = ARGV[5]
if redis.call('EXISTS', KEYS[1]) == 1 then return {'exists'} end
local meta = redis.call('HMGET', KEYS[7], 'generation', 'stopped')
if (meta[1] or '0') ~= ARGV[6] then return {'again'} end
local open = status == 'pending' or status == 'approved'
if open and meta[2] then return {'stopped'} end

local now = now_ms()
local arrival = now
if ARGV[8] ~= '' then arrival = math.min(now, tonumber(ARGV[8])) end
local deadline = arrival + tonumber(ARGV[7])
if open and now >= deadline then return {'late'} end
if ARGV[18] ~= '' then
  -- It was signed by the gateway's clock, and counts by the server's.
  local signed = tonumber(ARGV[18])
  if signed > deadline or signed < deadline - CLOCK_SLACK_MS or (open and now >= signed) then
    return {'clock', digits(now)}
  end
  deadline = signed
end
if ARGV[17] ~= '' and not usable(KEYS[13], now) then return {'spent'} end

local created, due = digits(now), digits(deadline)
redis.call('HSET', KEYS[1], 'agent', ARGV[2], 'session', ARGV[3], 'digest', ARGV[4], 'status', status,
  'created', created, 'deadline', due, unpack(ARGV, 19))
used(KEYS[13], ARGV[17], now)
-- A request of the gateway's own belongs to no session.
if ARGV[2] ~= '' then redis.call('ZADD', KEYS[8], now, ARGV[2] .. ' ' .. ARGV[3]) end
event(KEYS[6], 'submitted', now, ARGV[2], ARGV[1], '1', ARGV[13])
if status == 'pending' then
  redis.call('ZADD', KEYS[2], now, ARGV[1])
  redis.call('ZADD', KEYS[3], now, ARGV[1])
  redis.call('ZADD', KEYS[4], deadline, ARGV[1])
  if ARGV[9] ~= '' then
    redis.call('SADD', KEYS[9], ARGV[1])
    redis.call('ZADD', KEYS[10], now + tonumber(ARGV[12]), ARGV[2] .. ' ' .. ARGV[9])
  end
else
  redis.call('ZADD', KEYS[5], now, ARGV[1])
  event(KEYS[6], status, now, ARGV[2], ARGV[1], '1', ARGV[14])
end
for i = 14, #KEYS do redis.call('ZADD', KEYS[i], now, ARGV[1]) end
if ARGV[11] ~= '' then
  local decision = ARGV[15]
  if status == 'approved' and ARGV[9] == '' then decision = '' end
  reply(KEYS[12], ARGV[16], ARGV[10], ARGV[1], 'state',
    state(ARGV[1], status, '1', ARGV[4], due, decision))
  forget(KEYS[11], ARGV[11])
end
return {'ok', created, due}
