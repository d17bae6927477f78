-- Functions shared by all scripts. Times are milliseconds of the server's clock, as strings of digits.

local LONGEST_REPLY_STREAM = 10000
local REPLY_STREAM_LIFE_MS = 86400000
-- An agent's load is stored as long as one of its requests may be pending, plus a day.
local LOAD_LIFE_MS = 31 * 86400000

local function digits(number)
  return string.format('%.0f', number)
end

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Makes the following writes of this script succeed even if the server's memory is full: a server rejects
-- only the first write. This one changes nothing, because no hash has a field with an empty name.
local function even_when_full(hash)
  redis.call('HDEL', hash, '')
end

-- Returned instead of an approval if `meta` has no schema version: the kill switch was lost with it.
local function unknown()
  return redis.error_reply('NOSWITCH nobody knows whether the kill switch is on')
end

local function append(owner, name, value)
  local list = owner[name] or {}
  list[#list + 1], owner[name] = value, list
end

-- Returns the named arguments of a script, as one table for each record. ARGV are names, each followed by
-- its value. `record` starts the next table. `keys` names the next KEYS in order. A name that ends in `+`
-- adds to a list, also among the keys. `set.<field>` adds a field and its value to the list `set`.
local function arguments()
  local tables, place, one = {}, 0, nil
  for i = 1, #ARGV, 2 do
    local name, value = ARGV[i], ARGV[i + 1]
    if name == 'record' then
      one = {id = value, keys = {}, set = {}}
      tables[#tables + 1] = one
    elseif name == 'keys' then
      for key, list in string.gmatch(value, '([%a_]+)(%+?)') do
        place = place + 1
        if list == '' then one.keys[key] = KEYS[place] else append(one.keys, key, KEYS[place]) end
      end
    elseif string.sub(name, 1, 4) == 'set.' then
      local set = one.set
      set[#set + 1], set[#set + 2] = string.sub(name, 5), value
    elseif string.sub(name, -1) == '+' then
      append(one, string.sub(name, 1, -2), value)
    else
      one[name] = value
    end
  end
  return tables
end

-- Events that every replica acts on. See ADR 36.
local CONTROL = {policy_applied = 1, grant_made = 1, grant_ended = 1, grant_outdated = 1}
local LONGEST_CONTROL_STREAM = 10000

-- Appends to the event stream, which is the audit log. A control event also goes to the short stream
-- `control` next to `events`, without its data.
local function event(key, kind, now, agent, id, revision, data)
  if CONTROL[kind] then
    redis.call('XADD', string.sub(key, 1, -7) .. 'control', 'MAXLEN', '~', LONGEST_CONTROL_STREAM, '*',
      't', kind, 'at', digits(now), 'agent', agent, 'id', id, 'rev', revision, 'd', '{}')
  end
  return redis.call('XADD', key, '*', 't', kind, 'at', digits(now), 'agent', agent, 'id', id,
    'rev', revision, 'd', data)
end

-- Returns a decision as agents read it. For an approval by one person, only values that the record lacks
-- are stored: [revision, "name", time, "signature"]. The signature covers all of it.
local function whole(decision, id, status, digest, deadline)
  local revision, name, at, signature = string.match(decision, '^%[(%d+),(".*"),(%d+),("[^"]*")%]$')
  if not revision then return decision end
  return '{"request_id":"' .. id .. '","revision":' .. revision .. ',"status":"' .. status ..
    '","action":"approve","reason":"person","digest":"' .. digest .. '","decided_by":{"kind":"person","name":' ..
    name .. '},"decided_at":' .. at .. ',"expires_at":' .. deadline .. ',"signature":' .. signature .. '}'
end

-- Returns the state for an agent, with the number that it shows while it waits. Only the process that may
-- act on an approval gets the decision.
local function state(id, status, revision, digest, deadline, decision, secrets, may_have_run, number)
  local decided = decision and decision ~= '' and
    ',"decision":' .. whole(decision, id, status, digest, deadline) or ''
  local secret = secrets and secrets ~= '' and ',"secrets":' .. secrets or ''
  if number then secret = secret .. ',"number":"' .. number .. '"' end
  return '{"id":"' .. id .. '","status":"' .. status .. '","revision":' .. revision .. ',"digest":"' ..
    digest .. '","deadline":' .. deadline .. decided .. secret ..
    (may_have_run and ',"may_have_run":true}' or '}')
end

-- Answers a message on its process's reply stream. Ids count 0-1, 0-2, ... so that a reader sees a gap.
local function reply(key, verb, nonce, id, kind, body)
  redis.call('XADD', key, 'MAXLEN', '~', LONGEST_REPLY_STREAM, '0-*', 're', verb, 'nonce', nonce,
    'id', id, kind, body)
  redis.call('PEXPIRE', key, REPLY_STREAM_LIFE_MS)
end

-- Tells a process how a request ended, unless its stream expired; then it will ask when it returns.
local function push(key, id, body)
  redis.call('XADD', key, 'NOMKSTREAM', 'MAXLEN', '~', LONGEST_REPLY_STREAM, '0-*', 're', 'push',
    'nonce', '', 'id', id, 'state', body)
end

-- Deletes the handled ingress entry; '' means it came over HTTP. An empty stream is deleted too: otherwise
-- an agent that once wrote the greatest id could never write again.
local function forget(key, entry)
  if entry == '' then return end
  redis.call('XDEL', key, entry)
  if redis.call('XLEN', key) == 0 then redis.call('DEL', key) end
end

-- Returns whether a grant may decide now: it exists, is not expired and not used up.
local function usable(key, now)
  local grant = redis.call('HMGET', key, 'body', 'expires', 'max', 'used')
  if not grant[1] then return false end
  if grant[2] ~= '' and now >= tonumber(grant[2]) then return false end
  return grant[3] == '' or tonumber(grant[4]) < tonumber(grant[3])
end

-- Saves a grant and its event. `keys` are grant, grants (all), found (index by match), in_session?, due (by
-- expiry), ending (by time of the expiry notice), events and meta. `made` has id, agent, body, expires, max
-- and ending, where '' is none, and the event's data.
local function make_grant(keys, made, now)
  redis.call('HSET', keys.grant, 'body', made.body, 'expires', made.expires, 'max', made.max, 'used', '0',
    'gen', '1')
  redis.call('ZADD', keys.grants, now, made.id)
  redis.call('HSET', keys.found, made.id, made.body)
  if keys.in_session then redis.call('SADD', keys.in_session, made.id) end
  if made.expires ~= '' then redis.call('ZADD', keys.due, made.expires, made.id) end
  if made.ending ~= '' then redis.call('ZADD', keys.ending, made.ending, made.id) end
  redis.call('HINCRBY', keys.meta, 'generation', 1)
  event(keys.events, 'grant_made', now, made.agent, '', '0', made.event)
end

-- Counts one use of a grant.
local function used(key, now)
  redis.call('HINCRBY', key, 'used', 1)
  redis.call('HSET', key, 'last', digits(now))
end

-- The window of a limit moves in steps of a sixtieth, so an approval counts at most that much longer.
local WINDOW_PARTS = 60

local function spend_of(text)
  local amount, most, window = string.match(text, '^(%d+) (%d+) (%d+)$')
  return tonumber(amount), tonumber(most), tonumber(window)
end

-- Returns the amount that a rule approved within the window of a limit, and the expired parts.
local function counted(key, window, now)
  local first = math.floor((now - window) / (window / WINDOW_PARTS))
  local parts, total, over = redis.call('HGETALL', key), 0, {}
  for i = 1, #parts, 2 do
    if tonumber(parts[i]) < first then over[#over + 1] = parts[i] else total = total + tonumber(parts[i + 1]) end
  end
  return total, over
end

-- Returns whether each limit of a rule has room for an approval, in addition to `claimed` (by counter).
local function has_room(one, now, claimed)
  for i, key in ipairs(one.keys.counters or {}) do
    local amount, most, window = spend_of(one.spends[i])
    claimed[key] = (claimed[key] or counted(key, window, now)) + amount
    if claimed[key] > most then return false end
  end
  return true
end

-- Counts an approval against each limit of its rule. Nothing reverses this.
local function spend(one, now)
  for i, key in ipairs(one.keys.counters or {}) do
    local amount, _, window = spend_of(one.spends[i])
    local _, over = counted(key, window, now)
    if over[1] then redis.call('HDEL', key, unpack(over)) end
    local part = window / WINDOW_PARTS
    redis.call('HINCRBY', key, digits(math.floor(now / part)), digits(amount))
    redis.call('PEXPIRE', key, digits(window + part))
  end
end

-- Makes something due in the named queues of adapters that post cards.
local function mark(prefix, queues, what, now)
  for queue in string.gmatch(queues or '', '%S+') do
    if queue ~= 'followups' then redis.call('ZADD', prefix .. queue, now, what) end
  end
end

-- Returns the ms until an agent's next card (a leaky bucket, stored as the time it empties). Takes a card
-- from the budget if there is no wait, or if this card is posted anyway.
local function spend_card(load, now, each, burst, must)
  local free = math.max(tonumber(redis.call('HGET', load, 'free') or '0'), now)
  local wait = free + each - now - each * burst
  if wait > 0 and not must then return wait end
  redis.call('HSET', load, 'free', digits(math.min(free + each, now + each * burst)))
  return 0
end

-- Sets the expiry of an agent's load after a write, but not before its cool-down ends.
local function keep_load(load, now)
  local paused = tonumber(redis.call('HGET', load, 'until') or '0')
  redis.call('PEXPIREAT', load, digits(math.max(now, paused) + LOAD_LIFE_MS))
end

-- Marks an agent's overflow card as changed: a request joined or left it, or the cool-down began or ended.
local function recount(load, prefix, queues, agent, now)
  redis.call('HINCRBY', load, 'rev', 1)
  keep_load(load, now)
  mark(prefix, queues, '~' .. agent, now)
end

-- Puts a request behind its agent's overflow card until the card budget allows its own.
local function hold(load, behind, prefix, queues, agent, id, since, now, wait)
  redis.call('ZADD', behind .. '~' .. agent, since, id)
  recount(load, prefix, queues, agent, now)
  redis.call('ZADD', prefix .. 'followups', now + wait, '~' .. agent)
end

-- Gives a request that was behind another, or behind the overflow card, its own card.
local function show(record, id, events, prefix, now)
  local found = redis.call('HMGET', record, 'rev', 'agent', 'queues')
  local revision = digits(tonumber(found[1]) + 1)
  redis.call('HDEL', record, 'behind')
  redis.call('HSET', record, 'rev', revision, 'tier_at', digits(now))
  event(events, 'shown', now, found[2], id, revision, '{}')
  for queue in string.gmatch(found[3] or '', '%S+') do
    redis.call('ZADD', prefix .. queue, now, id)
  end
  return found[3]
end
