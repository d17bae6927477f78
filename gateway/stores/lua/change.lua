-- Applies transitions to requests that exist, all of them or none; with submit.lua the only writer of a
-- status. Everything is checked before the first write, and a terminal transition frees memory first.
--
-- KEYS for each transition: 1 record, 2 pending, 3 the agent's pending, 4 deadlines, 5 done, 6 events,
--      7 meta, 8 ingress, 9 reply stream of the message answered, 10 secret answers, 11 the grant that
--      decided, 12 the agent's load, 13 breakers, then without their last part the keys of
--      14 outboxes, 15 records and 16 who waits behind whom, then for each attached process its waiting
--      set and its reply stream, then dirty cards
-- ARGV for each transition: the numbers of its keys and of its arguments, then
--      1 id, 2 agent, 3 revision before, 4 when it was created, 5 status after, 6 clock guard (before,
--      after or ''), 7 policy generation or '', 8 '1' when the kill switch refuses it, 9 nonce or '',
--      10 event, 11 event data, 12 verb answered or '', 13 its nonce, 14 entry or '', 15 its process,
--      16 digest after, 17 decision or '', 18 secrets or '', 19 '1' when earlier secrets may be kept,
--      20 consumer or '', 21 '1' when the answer warns that it may have run, 22 id of the grant that
--      decided or '', 23 when a person ended it the most denials in a row or '', 24 for how many ms
--      more of them pause the agent, 25 number of attached processes, then their tokens, number of
--      fields to delete, their names, and fields with values to set
-- Returns {outcome, revision, which transition was refused, from 1}.

local now = now_ms()

-- Returns why a transition cannot be applied, or nothing, and the record as it stands.
local function refusal(KEYS, ARGV)
  local found = redis.call('HMGET', KEYS[1], 'rev', 'status', 'deadline', 'created', 'nonces', 'digest',
    'behind', 'alike', 'queues', 'canary', 'like')
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
  if ARGV[22] ~= '' and not usable(KEYS[11], now) then return 'spent', found end
  return nil, found
end

-- Takes what ends, or is not any more what it was, away from those it waits behind, and from the lead.
local function left(KEYS, ARGV, found, ends)
  local id, load, behind, queues = ARGV[1], KEYS[12], found[7], found[9]
  if behind then
    redis.call('ZREM', KEYS[16] .. behind, id)
    if string.sub(behind, 1, 1) == '~' then
      recount(load, KEYS[14], queues, ARGV[2], now)
    else
      redis.call('HINCRBY', KEYS[15] .. behind, 'alike', -1)
      mark(KEYS[14], redis.call('HGET', KEYS[15] .. behind, 'queues'), behind, now)
    end
  end
  if behind and not ends then
    redis.call('HDEL', KEYS[1], 'behind')
    redis.call('HSET', KEYS[1], 'tier_at', digits(now))
  end
  local slot = found[11] and '=' .. found[11]
  if slot and redis.call('HGET', load, slot) == id then redis.call('HDEL', load, slot) end
  if tonumber(found[8] or '0') > 0 then redis.call('ZADD', KEYS[14] .. 'followups', now, id) end
  if ends then redis.call('HINCRBY', load, 'bytes', -redis.call('HSTRLEN', KEYS[1], 'body')) end
end

-- Counts what people denied of an agent in a row, one answer once; at the limit the agent pauses, and
-- the places of the last that was denied are to say so.
local function count_denials(KEYS, ARGV, found)
  local load, most = KEYS[12], ARGV[23]
  if most == '' or ARGV[5] == 'pending' then return end
  if ARGV[5] ~= 'denied' then
    redis.call('HDEL', load, 'denied')
  elseif redis.call('HINCRBY', load, 'denied', 1) >= tonumber(most) then
    local until_ = digits(now + tonumber(ARGV[24]))
    redis.call('HSET', load, 'until', until_, 'last', ARGV[1], 'denied', '0')
    redis.call('HSET', KEYS[13], ARGV[2], until_)
    event(KEYS[6], 'breaker_opened', now, ARGV[2], '', '0',
      '{"denials":' .. most .. ',"until":' .. until_ .. '}')
    recount(load, KEYS[14], found[9], ARGV[2], now)
  end
end

-- Applies a transition to the record that was found; returns its new revision.
local function applied(KEYS, ARGV, found)
  local revision, was, deadline = found[1], found[2], found[3]
  local status = ARGV[5]
  local ends = was == 'pending' and status ~= 'pending'
  local attached = tonumber(ARGV[25])
  if ends then
    redis.call('ZREM', KEYS[2], ARGV[1])
    redis.call('ZREM', KEYS[3], ARGV[1])
    redis.call('ZREM', KEYS[4], ARGV[1])
    for i = 1, attached do redis.call('SREM', KEYS[15 + 2 * i], ARGV[1]) end
  end
  local at = 26 + attached
  local deletes = tonumber(ARGV[at])
  if deletes > 0 then redis.call('HDEL', KEYS[1], unpack(ARGV, at + 1, at + deletes)) end
  revision = digits(tonumber(revision) + 1)
  local set = {'HSET', KEYS[1], 'rev', revision, 'status', status, unpack(ARGV, at + deletes + 1)}
  if ends then set[#set + 1], set[#set + 2] = 'decision', ARGV[17] end
  redis.call(unpack(set))
  used(KEYS[11], ARGV[22], now)
  if ends then redis.call('ZADD', KEYS[5], now, ARGV[1]) end
  local secrets = ARGV[18]
  if secrets ~= '' then
    redis.call('SET', KEYS[10], secrets, 'PX', digits(tonumber(deadline) - now))
  elseif ARGV[19] == '1' then
    secrets = redis.call('GET', KEYS[10])
  end
  event(KEYS[6], ARGV[10], now, ARGV[2], ARGV[1], revision, ARGV[11])
  if ends or (was == 'pending' and found[6] ~= ARGV[16]) then left(KEYS, ARGV, found, ends) end
  local function told(process, warn)
    local acts = status ~= 'approved' or process == ARGV[20]
    return state(ARGV[1], status, revision, ARGV[16], deadline, acts and ARGV[17], acts and secrets, warn)
  end
  if ends then
    for i = 1, attached do
      push(KEYS[16 + 2 * i], ARGV[1], told(ARGV[25 + i]))
    end
  end
  for i = 17 + 2 * attached, #KEYS do redis.call('ZADD', KEYS[i], now, ARGV[1]) end
  if ARGV[14] ~= '' then
    reply(KEYS[9], ARGV[12], ARGV[13], ARGV[1], 'state', told(ARGV[15], ARGV[21] == '1'))
    forget(KEYS[8], ARGV[14])
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
  local why, found = refusal(move[1], move[2])
  -- What one transition changes, another of them cannot have been checked against.
  if not why and seen[move[1][1]] then why = 'stale' end
  if not why and move[2][22] ~= '' and seen[move[1][11]] then why = 'spent' end
  if why then return {why, found[1] or '', i} end
  seen[move[1][1]], seen[move[1][11]], move[3] = true, true, found
end
local revision
for _, move in ipairs(moves) do revision = applied(move[1], move[2], move[3]) end
count_denials(unpack(moves[1]))
return {'ok', revision, 0}
