-- Applies transitions to requests that exist, all of them or none; with submit.lua the only writer of a
-- status. Everything is checked before the first write, and a terminal transition frees memory first.
--
-- KEYS for each transition: 1 record, 2 pending, 3 the agent's pending, 4 deadlines, 5 done, 6 events,
--      7 meta, 8 the agent's load, then without their last part the keys of 9 outboxes, 10 records and
--      11 who waits behind whom, then for each attached process its waiting set and its reply stream,
--      then those that are named, then dirty cards
-- ARGV for each transition: the numbers of its keys and of its arguments, then
--      1 id, 2 agent, 3 revision before, 4 when it was created, 5 status after, 6 clock guard (before,
--      after or ''), 7 policy generation or '', 8 '1' when the kill switch refuses it, 9 nonce or '',
--      10 event, 11 event data, 12 digest after, 13 decision or '', 14 consumer or '', 15 number of
--      attached processes, then their tokens, number of words that follow by name, those, number of
--      fields to delete, their names, and fields with values to set
-- By name, each with its value, comes what most transitions do without; a value of ..._key is the place
-- of a key, and keys how many are named:
--      of the message that is answered its verb, nonce, entry and process, ingress_key, replies_key;
--      secrets, or keep for earlier ones that may be kept, secret_key; warn when it may have run;
--      grant that decided, grant_key; when a person ended it denials, the most in a row, and pause, for
--      how many ms more of them pause the agent, breakers_key
-- Returns {outcome, revision, which transition was refused, from 1}.

local now = now_ms()

local NOTHING = {}

-- Returns how many processes are attached, what comes by name, and where the fields to delete begin.
local function parts(KEYS, ARGV)
  local attached = tonumber(ARGV[15])
  local at = 16 + attached
  if ARGV[at] == '0' then return attached, NOTHING, at + 1 end
  local more, last = {}, at + tonumber(ARGV[at])
  for i = at + 1, last, 2 do
    local name, value = ARGV[i], ARGV[i + 1]
    if string.sub(name, -4) == '_key' then value = KEYS[tonumber(value)] end
    more[name] = value
  end
  return attached, more, last + 1
end

-- Returns why a transition cannot be applied, or nothing, and the record as it stands.
local function refusal(KEYS, ARGV, more)
  local found = redis.call('HMGET', KEYS[1], 'rev', 'status', 'deadline', 'created', 'nonces', 'digest',
    'behind', 'alike', 'queues', 'canary', 'leads', 'size')
  if not found[2] then return 'gone', found end
  -- Whatever anybody decides: what tests people is never approved.
  if found[10] and ARGV[5] == 'approved' then return 'gone', found end
  if ARGV[9] ~= '' and string.find(found[5] or '', ARGV[9], 1, true) then return 'replay', found end
  if found[1] ~= ARGV[3] or found[4] ~= ARGV[4] then return 'stale', found end
  local meta = redis.call('HMGET', KEYS[7], 'generation', 'stopped')
  if ARGV[7] ~= '' and (meta[1] or '0') ~= ARGV[7] then return 'again', found end
  if ARGV[8] == '1' and meta[2] then return 'stopped', found end
  if ARGV[6] == 'before' and now >= tonumber(found[3]) then return 'late', found end
  if ARGV[6] == 'after' and now < tonumber(found[3]) then return 'early', found end
  if more.grant and not usable(more.grant_key, now) then return 'spent', found end
  return nil, found
end

-- Takes what ends, or is not any more what it was, away from those it waits behind, and from the lead.
local function left(KEYS, ARGV, found, ends)
  local id, load, behind, queues, leads = ARGV[1], KEYS[8], found[7], found[9], found[11]
  if behind then
    redis.call('ZREM', KEYS[11] .. behind, id)
    if string.sub(behind, 1, 1) == '~' then
      recount(load, KEYS[9], queues, ARGV[2], now)
    else
      redis.call('HINCRBY', KEYS[10] .. behind, 'alike', -1)
      mark(KEYS[9], redis.call('HGET', KEYS[10] .. behind, 'queues'), behind, now)
    end
  end
  if behind and not ends then
    redis.call('HDEL', KEYS[1], 'behind')
    redis.call('HSET', KEYS[1], 'tier_at', digits(now))
  end
  if leads then
    redis.call('HDEL', load, '=' .. leads)
    if not ends then redis.call('HDEL', KEYS[1], 'leads') end
  end
  if found[8] and tonumber(found[8]) > 0 then redis.call('ZADD', KEYS[9] .. 'followups', now, id) end
  if ends then
    -- Records of earlier versions do not say how long their body is.
    local size = found[12] or redis.call('HSTRLEN', KEYS[1], 'body')
    redis.call('HINCRBY', load, 'bytes', digits(-size))
  end
end

-- Counts what people denied of an agent in a row, one answer once; at the limit the agent pauses, and
-- the places of the last that was denied are to say so.
local function count_denials(KEYS, ARGV, found, more)
  local load, most = KEYS[8], more.denials
  if not most or ARGV[5] == 'pending' then return end
  if ARGV[5] ~= 'denied' then
    redis.call('HDEL', load, 'denied')
  elseif redis.call('HINCRBY', load, 'denied', 1) >= tonumber(most) then
    local until_ = digits(now + tonumber(more.pause))
    redis.call('HSET', load, 'until', until_, 'last', ARGV[1], 'denied', '0')
    redis.call('HSET', more.breakers_key, ARGV[2], until_)
    event(KEYS[6], 'breaker_opened', now, ARGV[2], '', '0',
      '{"denials":' .. most .. ',"until":' .. until_ .. '}')
    recount(load, KEYS[9], found[9], ARGV[2], now)
  end
end

-- Applies a transition to the record that was found; returns its new revision.
local function applied(KEYS, ARGV, found, attached, more, at)
  local revision, was, deadline, status = found[1], found[2], found[3], ARGV[5]
  local ends = was == 'pending' and status ~= 'pending'
  if ends then
    redis.call('ZREM', KEYS[2], ARGV[1])
    redis.call('ZREM', KEYS[3], ARGV[1])
    redis.call('ZREM', KEYS[4], ARGV[1])
    for i = 1, attached do redis.call('SREM', KEYS[10 + 2 * i], ARGV[1]) end
  end
  local deletes = tonumber(ARGV[at])
  if deletes > 0 then redis.call('HDEL', KEYS[1], unpack(ARGV, at + 1, at + deletes)) end
  revision = digits(tonumber(revision) + 1)
  local set = {'HSET', KEYS[1], 'rev', revision, 'status', status, unpack(ARGV, at + deletes + 1)}
  if ends then set[#set + 1], set[#set + 2] = 'decision', ARGV[13] end
  redis.call(unpack(set))
  if more.grant then used(more.grant_key, more.grant, now) end
  if ends then redis.call('ZADD', KEYS[5], now, ARGV[1]) end
  local secrets = more.secrets
  if secrets then
    redis.call('SET', more.secret_key, secrets, 'PX', digits(tonumber(deadline) - now))
  elseif more.keep then
    secrets = redis.call('GET', more.secret_key)
  end
  event(KEYS[6], ARGV[10], now, ARGV[2], ARGV[1], revision, ARGV[11])
  if ends or (was == 'pending' and found[6] ~= ARGV[12]) then left(KEYS, ARGV, found, ends) end
  local function told(process, warn)
    local acts = status ~= 'approved' or process == ARGV[14]
    return state(ARGV[1], status, revision, ARGV[12], deadline, acts and ARGV[13], acts and secrets, warn)
  end
  if ends then
    for i = 1, attached do
      push(KEYS[11 + 2 * i], ARGV[1], told(ARGV[15 + i]))
    end
  end
  for i = 12 + 2 * attached + (more.keys or 0), #KEYS do redis.call('ZADD', KEYS[i], now, ARGV[1]) end
  if more.entry then
    reply(more.replies_key, more.verb, more.nonce, ARGV[1], 'state', told(more.process, more.warn))
    forget(more.ingress_key, more.entry)
  end
  return revision
end

local moves, key, argument = {}, 1, 1
while ARGV[argument] do
  local keys, arguments = tonumber(ARGV[argument]), tonumber(ARGV[argument + 1])
  moves[#moves + 1] = {
    {unpack(KEYS, key, key + keys - 1)},
    {unpack(ARGV, argument + 2, argument + 1 + arguments)},
  }
  key, argument = key + keys, argument + 2 + arguments
end
local seen = {}
for i, move in ipairs(moves) do
  local attached, more, at = parts(move[1], move[2])
  local why, found = refusal(move[1], move[2], more)
  -- What one transition changes, another of them cannot have been checked against.
  if not why and seen[move[1][1]] then why = 'stale' end
  if not why and more.grant and seen[more.grant_key] then why = 'spent' end
  if why then return {why, found[1] or '', i} end
  seen[move[1][1]], move[3], move[4], move[5], move[6] = true, found, attached, more, at
  if more.grant then seen[more.grant_key] = true end
end
local revision
for _, move in ipairs(moves) do revision = applied(unpack(move)) end
local first = moves[1]
count_denials(first[1], first[2], first[3], first[5])
return {'ok', revision, 0}
