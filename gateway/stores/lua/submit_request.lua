-- Creates a request, pending or already decided by policy.
--
-- Arguments by name (see `arguments` in shared_functions.lua); ? marks optional ones:
--   record (its id), agent, session, digest, status, data (of its event), timeout (in ms), body, and
--   set.<field> (all other fields); named (when the agent got its name, in ms); process? (the one that
--   waits), lease (in ms); arrived? (in ms); number? (to show at the process, also among the fields)
-- conditions: generation (of the policy), grant? (that decided), spends+? (`amount most window` for each
--   counter of the rule that decided), signed? (when the decision expires), most_waiting, most_bytes,
--   most_daily (of the agent)
-- decision: decision?, decided? (its time in ms, by the gateway's clock), ended? (data of its event)
-- cards: likeness? (absent if it needs its own card), card_ms? (per card, absent if none is posted),
--   most_cards (at once)
-- reply: verb, message_nonce, entry?
-- keys: record, pending, agent_pending, deadlines, done, events, meta, sessions, waiting (the process's
--   set), processes, ingress, reply, load (of the agent), then prefixes outboxes, records and behind
--   (requests behind a card); grant with the grant; counters+ with spends; dirty+ (queues of cards);
--   same? (denials that cover this call)
-- Returns {result, created, deadline, the card that it is behind or ''}; created is the server's time even
-- if nothing was written. For a recently denied call: {'denied', id of the denied request}.

-- A signed decision may expire this much before the deadline without a new signature.
local CLOCK_SLACK_MS = 1000

local DAY_MS = 86400000
-- Size of a request in addition to its body, until it is deleted.
local RECORD_BYTES = 1024

local new = arguments()[1]
local keys, id, agent, status, size = new.keys, new.id, new.agent, new.status, #new.body
if redis.call('EXISTS', keys.record) == 1 then return {'exists'} end
local meta = redis.call('HMGET', keys.meta, 'generation', 'stopped', 'schema')
local open = status == 'pending' or status == 'approved'
if open and not meta[3] then return unknown() end
if (meta[1] or '0') ~= new.generation then return {'again'} end
if open and meta[2] then return {'stopped'} end

-- A person denied the same call within the last minutes.
local denial = open and keys.same and redis.call('HKEYS', keys.same)[1]
if denial then return {'denied', denial} end

local now = now_ms()
local arrival = now
if new.arrived then arrival = math.min(now, tonumber(new.arrived)) end
local deadline = arrival + tonumber(new.timeout)
if open and now >= deadline then return {'late'} end
if new.signed then
  -- The gateway's clock signed it, but the server's clock counts.
  local signed = tonumber(new.signed)
  if signed > deadline or signed < deadline - CLOCK_SLACK_MS or (open and now >= signed) then
    return {'clock', digits(now)}
  end
  deadline = signed
end
if new.grant and not usable(keys.grant, now) then return {'spent'} end
if not has_room(new, now, {}) then return {'over limit'} end
local load = redis.call('HMGET', keys.load, 'handed', 'bytes', 'until', '=' .. (new.likeness or ''))
-- The load of submitted requests decays within a day: a leaky bucket, stored as the time it empties.
local handed = math.max(tonumber(load[1] or '0'), now) +
  (size + RECORD_BYTES) * DAY_MS / tonumber(new.most_daily)
if handed > now + DAY_MS then return {'crowded'} end
local behind, wait, leads = '', 0, false
if status == 'pending' then
  if load[3] and now < tonumber(load[3]) then return {'paused'} end
  if redis.call('ZCARD', keys.agent_pending) >= tonumber(new.most_waiting) then return {'crowded'} end
  if tonumber(load[2] or '0') + size > tonumber(new.most_bytes) then return {'crowded'} end
  -- From here on the request is accepted.
  local leader = load[4] and redis.call('HMGET', keys.records .. load[4], 'status', 'digest')
  if leader and leader[1] == 'pending' and leader[2] == new.digest then
    behind = load[4]
  else
    if new.card_ms then
      wait = spend_card(keys.load, now, tonumber(new.card_ms), tonumber(new.most_cards), not new.likeness)
    end
    if wait > 0 then behind = '~' .. agent end
    leads = new.likeness
  end
  redis.call('HINCRBY', keys.load, 'bytes', size)
  if leads then
    redis.call('HSET', keys.load, '=' .. leads, id)
    -- The old leader is final or has another digest, so it no longer leads.
    if load[4] then redis.call('HDEL', keys.records .. load[4], 'leads') end
  end
end
redis.call('HSET', keys.load, 'handed', digits(handed))
keep_load(keys.load, now)

-- A request older than its agent's name would belong to a previous holder, and clocks may go back. A
-- decided request was submitted before its decision.
local asked = math.min(now, tonumber(new.decided or now))
local created = digits(math.max(asked, tonumber(new.named)))
local due, told = digits(deadline), new.data
local set = {'HSET', keys.record, 'agent', agent, 'digest', new.digest, 'status', status,
  'created', created, 'deadline', due, 'body', new.body, unpack(new.set)}
if status == 'pending' then set[#set + 1], set[#set + 2] = 'size', digits(size) end
if leads then set[#set + 1], set[#set + 2] = 'leads', leads end
redis.call(unpack(set))
if behind ~= '' then
  redis.call('HSET', keys.record, 'behind', behind)
  local rest = string.sub(told, 2)
  told = '{"behind":"' .. behind .. '"' .. (rest == '}' and '' or ',') .. rest
end
if new.grant then used(keys.grant, now) end
spend(new, now)
redis.call('ZADD', keys.sessions, now, agent .. ' ' .. new.session)
event(keys.events, 'submitted', asked, agent, id, '1', told)
if status == 'pending' then
  redis.call('ZADD', keys.pending, now, id)
  redis.call('ZADD', keys.agent_pending, now, id)
  redis.call('ZADD', keys.deadlines, deadline, id)
  if new.process then
    redis.call('SADD', keys.waiting, id)
    redis.call('ZADD', keys.processes, now + tonumber(new.lease), agent .. ' ' .. new.process)
  end
else
  redis.call('ZADD', keys.done, now, id)
  -- An approval that no process has taken yet is checked once more then.
  if status == 'approved' and not new.process then redis.call('ZADD', keys.deadlines, deadline, id) end
  event(keys.events, status, now, agent, id, '1', new.ended or '')
end
if wait > 0 then
  local queues = redis.call('HGET', keys.record, 'queues')
  hold(keys.load, keys.behind, keys.outboxes, queues, agent, id, now, now, wait)
elseif behind ~= '' then
  redis.call('ZADD', keys.behind .. behind, now, id)
  redis.call('HINCRBY', keys.records .. behind, 'alike', 1)
  mark(keys.outboxes, redis.call('HGET', keys.records .. behind, 'queues'), behind, now)
else
  for _, dirty in ipairs(keys.dirty or {}) do redis.call('ZADD', dirty, now, id) end
end
if new.entry then
  local decision = new.decision
  if status == 'approved' and not new.process then decision = nil end
  reply(keys.reply, new.verb, new.message_nonce, id, 'state',
    state(id, status, '1', new.digest, due, decision, nil, nil, status == 'pending' and new.number))
  forget(keys.ingress, new.entry)
end
return {'ok', created, due, behind}
