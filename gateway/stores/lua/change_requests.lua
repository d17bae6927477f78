-- Applies transitions to existing requests: all or none. Checks everything before the first write. A
-- terminal transition frees memory first.
--
-- Arguments of each transition by name (see `arguments` in shared_functions.lua); ? marks optional ones:
--   record (its id), agent, revision and created (as read), status, digest and decision? (afterwards),
--   event and data; consumer? (the process that may act on an approval), untaken? (an approval that no
--   process got and nothing reported), attached+? (processes to notify), set.<field>? and delete+?
--   (changed fields of the record)
-- conditions: clock? (before or after the deadline), generation? (of the policy), stoppable? (rejected if
--   the kill switch is on), nonce? (of the click), number? (typed), grant? (that decided), spends+?
--   (`amount most window` for each counter of the rule that decided)
-- rarely used: secrets? (or keep? if earlier ones may exist), warn? (the call may have run); new grants of
--   an approval: made+ (ids), body+, max+, told+ (event data), until?, ending? and most? (limit of one
--   index); minutes? (how long this denial covers the same call); if a person ended it: denials? (limit of
--   consecutive denials), pause? (cool-down in ms) and decided_ms (how long to store the decision);
--   for a reply: verb?, message_nonce?, entry? and process?
-- keys: record, pending, agent_pending, deadlines, done, events, meta, load (of the agent), then prefixes
--   outboxes, records and behind (requests behind a card); for each attached process waiting+ (its set)
--   and replies+ (its stream); dirty+ (queues of cards); with their arguments ingress, reply, secret,
--   grant, counters+, breakers, decided; with minutes grant, same and denials; for each of made+
--   new_grant+ and found+, then grants, in_session, grants_due and grants_ending
-- Returns {result, revision, number of the rejected transition, from 1}.

local now = now_ms()
-- Totals of the rules' counters, including the transitions checked so far.
local claimed = {}

local FIELDS = {'rev', 'status', 'deadline', 'created', 'nonces', 'digest', 'behind', 'alike', 'queues',
  'leads', 'size', 'number'}

-- Returns those fields of a record by name; a missing field is false.
local function fields_of(record)
  local values, found = redis.call('HMGET', record, unpack(FIELDS)), {}
  for i, name in ipairs(FIELDS) do found[name] = values[i] end
  return found
end

-- Returns why a transition cannot be applied, or nothing.
local function refusal(step, found)
  if not found.status then return 'gone' end
  if step.nonce and string.find(found.nonces or '', step.nonce, 1, true) then return 'replay' end
  if found.rev ~= step.revision or found.created ~= step.created then return 'stale' end
  local meta = redis.call('HMGET', step.keys.meta, 'generation', 'stopped', 'schema')
  local approves = step.stoppable or (step.status == 'approved' and found.status == 'pending')
  if approves and not meta[3] then return 'unknown' end
  if step.generation and (meta[1] or '0') ~= step.generation then return 'again' end
  if step.stoppable and meta[2] then return 'stopped' end
  if step.clock == 'before' and now >= tonumber(found.deadline) then return 'late' end
  if step.clock == 'after' and now < tonumber(found.deadline) then return 'early' end
  -- Compared before, but this check is the final one.
  if step.number and step.number ~= found.number then return 'stale' end
  if step.grant and not usable(step.keys.grant, now) then return 'spent' end
  for _, found_by in ipairs(step.keys.found or {}) do
    if redis.call('HLEN', found_by) >= tonumber(step.most) then return 'full' end
  end
  if not has_room(step, now, claimed) then return 'over limit' end
end

-- Removes a request that ends, or changed, from the group it belongs to or leads.
local function left(step, found, ends)
  local keys, behind, load = step.keys, found.behind, step.keys.load
  if behind then
    redis.call('ZREM', keys.behind .. behind, step.id)
    if string.sub(behind, 1, 1) == '~' then
      recount(load, keys.outboxes, found.queues, step.agent, now)
    else
      redis.call('HINCRBY', keys.records .. behind, 'alike', -1)
      mark(keys.outboxes, redis.call('HGET', keys.records .. behind, 'queues'), behind, now)
    end
  end
  if behind and not ends then
    redis.call('HDEL', keys.record, 'behind')
    redis.call('HSET', keys.record, 'tier_at', digits(now))
  end
  if found.leads then
    redis.call('HDEL', load, '=' .. found.leads)
    if not ends then redis.call('HDEL', keys.record, 'leads') end
  end
  if found.alike and tonumber(found.alike) > 0 then
    redis.call('ZADD', keys.outboxes .. 'followups', now, step.id)
  end
  if ends then
    redis.call('HINCRBY', load, 'bytes', digits(-found.size))
    keep_load(load, now)
  end
end

-- Counts consecutive denials of an agent, a batch as one. At the limit the agent gets a cool-down, and the
-- card places of the last denied request show it.
local function count_denials(step, found)
  local keys = step.keys
  if not step.denials or step.status == 'pending' then return end
  if step.status ~= 'denied' then
    redis.call('HDEL', keys.load, 'denied')
  elseif redis.call('HINCRBY', keys.load, 'denied', 1) >= tonumber(step.denials) then
    local until_ = digits(now + tonumber(step.pause))
    redis.call('HSET', keys.load, 'until', until_, 'last', step.id, 'denied', '0')
    redis.call('HSET', keys.breakers, step.agent, until_)
    event(keys.events, 'breaker_opened', now, step.agent, '', '0',
      '{"denials":' .. step.denials .. ',"until":' .. until_ .. '}')
    recount(keys.load, keys.outboxes, found.queues, step.agent, now)
  end
end

-- Makes a denial cover the same call for some minutes. It is found by the call and listed, and counts its
-- uses as a grant does (see `usable`).
local function repeat_denial(step)
  local keys, life = step.keys, tonumber(step.minutes) * 60000
  local until_ = digits(now + life)
  redis.call('HSET', keys.grant, 'body', step.minutes, 'expires', until_, 'max', '', 'used', '0')
  redis.call('HSET', keys.same, step.id, '')
  redis.call('PEXPIRE', keys.grant, life)
  redis.call('PEXPIRE', keys.same, life)
  redis.call('ZADD', keys.denials, until_, step.id)
end

-- Creates the grants of an approval.
local function make_grants(step)
  local keys = step.keys
  for i, id in ipairs(step.made or {}) do
    make_grant({grant = keys.new_grant[i], grants = keys.grants, found = keys.found[i],
      in_session = keys.in_session, due = keys.grants_due, ending = keys.grants_ending,
      events = keys.events, meta = keys.meta},
      {id = id, agent = step.agent, body = step.body[i], expires = step['until'], max = step.max[i],
        ending = step.ending, event = step.told[i]}, now)
  end
end

-- Stores a person's decision about an agent's use of a tool, and deletes old ones.
local function note_decided(step)
  local key, life = step.keys.decided, tonumber(step.decided_ms)
  redis.call('ZADD', key, now, step.id)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', digits(now - life))
  redis.call('PEXPIRE', key, life)
end

-- Writes the changes of a transition to its record; returns the new revision.
local function write(step, found, ends)
  local keys, revision = step.keys, digits(tonumber(found.rev) + 1)
  if step.delete then redis.call('HDEL', keys.record, unpack(step.delete)) end
  -- Only pending requests need these, and a record is stored for long.
  if ends then redis.call('HDEL', keys.record, 'size', 'leads', 'number') end
  local set = {'HSET', keys.record, 'rev', revision, 'status', step.status, unpack(step.set)}
  if ends then set[#set + 1], set[#set + 2] = 'decision', step.decision or '' end
  redis.call(unpack(set))
  return revision
end

-- Returns the secret answers of a form, which are stored until its deadline.
local function secrets_of(step, found)
  if step.secrets then
    redis.call('SET', step.keys.secret, step.secrets, 'PX', digits(tonumber(found.deadline) - now))
  elseif step.keep then
    return redis.call('GET', step.keys.secret)
  end
  return step.secrets
end

-- Notifies the waiting processes, the queues of its cards, and the sender of the message.
local function tell(step, found, revision, ends, secrets)
  local keys = step.keys
  local function told(process, warn)
    local acts = step.status ~= 'approved' or process == step.consumer
    return state(step.id, step.status, revision, step.digest, found.deadline, acts and step.decision,
      acts and secrets, warn)
  end
  if ends then
    for i, process in ipairs(step.attached or {}) do push(keys.replies[i], step.id, told(process)) end
  end
  for _, dirty in ipairs(keys.dirty or {}) do redis.call('ZADD', dirty, now, step.id) end
  if step.entry then
    reply(keys.reply, step.verb, step.message_nonce, step.id, 'state', told(step.process, step.warn))
    forget(keys.ingress, step.entry)
  end
end

-- Applies a transition to the record that was found; returns its new revision.
local function apply(step, found)
  local keys, ends = step.keys, found.status == 'pending' and step.status ~= 'pending'
  if ends then
    redis.call('ZREM', keys.pending, step.id)
    redis.call('ZREM', keys.agent_pending, step.id)
    for _, waiting in ipairs(keys.waiting or {}) do redis.call('SREM', waiting, step.id) end
  end
  -- An approval that no process has taken yet is checked once more at its deadline.
  if step.status ~= 'pending' and not step.untaken then redis.call('ZREM', keys.deadlines, step.id) end
  local revision = write(step, found, ends)
  if step.grant then used(keys.grant, now) end
  spend(step, now)
  if step.minutes then repeat_denial(step) end
  if step.decided_ms then note_decided(step) end
  if ends then redis.call('ZADD', keys.done, now, step.id) end
  local secrets = secrets_of(step, found)
  event(keys.events, step.event, now, step.agent, step.id, revision, step.data)
  make_grants(step)
  if ends or (found.status == 'pending' and found.digest ~= step.digest) then left(step, found, ends) end
  tell(step, found, revision, ends, secrets)
  return revision
end

local steps, records, seen = arguments(), {}, {}
for i, step in ipairs(steps) do
  local found, keys = fields_of(step.keys.record), step.keys
  local why = refusal(step, found)
  -- A second transition of the same record would be checked against outdated values.
  if not why and seen[keys.record] then why = 'stale' end
  if not why and step.grant and seen[keys.grant] then why = 'spent' end
  if why == 'unknown' then return unknown() end
  if why then return {why, found.rev or '', i} end
  records[i], seen[keys.record] = found, true
  if step.grant then seen[keys.grant] = true end
end
local revision
for i, step in ipairs(steps) do revision = apply(step, records[i]) end
count_denials(steps[1], records[1])
return {'ok', revision, 0}
