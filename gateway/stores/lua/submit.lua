-- Creates a request, pending or already decided by policy; the only birth of a status.
--
-- KEYS 1 record, 2 pending, 3 the agent's pending, 4 deadlines, 5 done, 6 events, 7 meta, 8 sessions,
--      9 what the process waits for, 10 processes, 11 ingress, 12 reply stream, 13 the grant that decided,
--      14 the agent's load, then without their last part the keys of 15 outboxes, 16 records and
--      17 who waits behind whom; 18... dirty cards
-- ARGV 1 id, 2 agent, 3 session, 4 digest, 5 status, 6 policy generation, 7 timeout in ms,
--      8 arrival in ms or '', 9 waiting process or '', 10 nonce, 11 entry or '', 12 lease in ms,
--      13 event data, 14 data of the terminal event or '', 15 decision or '', 16 verb answered,
--      17 id of the grant that decided or '', 18 when the decision expires or '',
--      19 likeness, or '' when it needs a card of its own, 20 most waiting requests, 21 most bytes,
--      22 most bytes within a day, 23 ms for each card or '' when none is posted, 24 most cards at once,
--      25 body, 26... other fields and values
-- Returns {outcome, created, deadline, what it waits behind or ''}; created is the server's time also
-- when nothing was written.

-- So much earlier than asked a signed decision may expire, before the gateway has to sign another.
local CLOCK_SLACK_MS = 1000

local DAY_MS = 86400000
-- What a request takes beside its body, until it is forgotten.
local RECORD_BYTES = 1024

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
local load = redis.call('HMGET', KEYS[14], 'handed', 'bytes', 'until', '=' .. ARGV[19])
-- What was handed in fades within a day: a leaky bucket, kept as the time it will be empty.
local handed = math.max(tonumber(load[1] or '0'), now) +
  (#ARGV[25] + RECORD_BYTES) * DAY_MS / tonumber(ARGV[22])
if handed > now + DAY_MS then return {'crowded'} end
local behind, wait, leads = '', 0, false
if status == 'pending' then
  if load[3] and now < tonumber(load[3]) then return {'paused'} end
  if redis.call('ZCARD', KEYS[3]) >= tonumber(ARGV[20]) then return {'crowded'} end
  if tonumber(load[2] or '0') + #ARGV[25] > tonumber(ARGV[21]) then return {'crowded'} end
  -- From here on it is taken in.
  local leader = load[4] and redis.call('HMGET', KEYS[16] .. load[4], 'status', 'digest')
  if leader and leader[1] == 'pending' and leader[2] == ARGV[4] then
    behind = load[4]
  else
    if ARGV[23] ~= '' then
      wait = spend_card(KEYS[14], now, tonumber(ARGV[23]), tonumber(ARGV[24]), ARGV[19] == '')
    end
    if wait > 0 then behind = '~' .. ARGV[2] end
    leads = ARGV[19] ~= ''
  end
  redis.call('HINCRBY', KEYS[14], 'bytes', #ARGV[25])
  if leads then
    redis.call('HSET', KEYS[14], '=' .. ARGV[19], ARGV[1])
    -- What has the same digits, and is not alike after all, leads no more.
    if load[4] then redis.call('HDEL', KEYS[16] .. load[4], 'leads') end
  end
end
redis.call('HSET', KEYS[14], 'handed', digits(handed))

local created, due, told = digits(now), digits(deadline), ARGV[13]
local set = {'HSET', KEYS[1], 'agent', ARGV[2], 'session', ARGV[3], 'digest', ARGV[4], 'status', status,
  'created', created, 'deadline', due, 'size', digits(#ARGV[25]), 'body', unpack(ARGV, 25)}
if leads then set[#set + 1], set[#set + 2] = 'leads', ARGV[19] end
redis.call(unpack(set))
if behind ~= '' then
  redis.call('HSET', KEYS[1], 'behind', behind)
  local rest = string.sub(told, 2)
  told = '{"behind":"' .. behind .. '"' .. (rest == '}' and '' or ',') .. rest
end
used(KEYS[13], ARGV[17], now)
-- A request of the gateway's own belongs to no session.
if ARGV[2] ~= '' then redis.call('ZADD', KEYS[8], now, ARGV[2] .. ' ' .. ARGV[3]) end
event(KEYS[6], 'submitted', now, ARGV[2], ARGV[1], '1', told)
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
if wait > 0 then
  local queues = redis.call('HGET', KEYS[1], 'queues')
  hold(KEYS[14], KEYS[17], KEYS[15], queues, ARGV[2], ARGV[1], now, now, wait)
elseif behind ~= '' then
  redis.call('ZADD', KEYS[17] .. behind, now, ARGV[1])
  redis.call('HINCRBY', KEYS[16] .. behind, 'alike', 1)
  mark(KEYS[15], redis.call('HGET', KEYS[16] .. behind, 'queues'), behind, now)
else
  for i = 18, #KEYS do redis.call('ZADD', KEYS[i], now, ARGV[1]) end
end
if ARGV[11] ~= '' then
  local decision = ARGV[15]
  if status == 'approved' and ARGV[9] == '' then decision = '' end
  reply(KEYS[12], ARGV[16], ARGV[10], ARGV[1], 'state',
    state(ARGV[1], status, '1', ARGV[4], due, decision))
  forget(KEYS[11], ARGV[11])
end
return {'ok', created, due, behind}
