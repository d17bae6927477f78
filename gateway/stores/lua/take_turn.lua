-- Gives a call its turn under a platform's limit that all replicas share: at most `most` calls in any
-- window, lowest waiting rank first. A call that must wait joins a line, and loses its place if it does not
-- come back in time. If others left and the first in line was told too late a time, it is due again now.
--
-- KEYS 1 calls by start time, 2 the line by rank, 3 until when each place is kept, 4 exists while the
--      platform rejects such calls, 5 the limit and subject of each place, 6 the queue of due subjects
-- ARGV 1 name, 2 rank, or '' to leave the line, 3 most calls, 4 window in ms, 5 calls to leave to others,
--      6 the id of its subject, or ''
-- Returns the ms to wait, 0 if it is its turn.

local LATE_MS = 3000 -- a call that is this late loses its place
local LONGEST_MS = 30000 -- by then those before it may have lost their places
local CLOSE_MS = 20 -- times this close count as equal

local now, name, span = now_ms(), ARGV[1], tonumber(ARGV[4])
local most = math.max(1, tonumber(ARGV[3]) - tonumber(ARGV[5]))

local function leave(one)
  redis.call('ZREM', KEYS[2], one)
  redis.call('ZREM', KEYS[3], one)
  redis.call('HDEL', KEYS[5], one)
end

-- Returns the ms until the turn of a place in line.
local function wait_at(place, limit)
  local wait = math.max(0, redis.call('PTTL', KEYS[4]))
  local early = place - (limit - redis.call('ZCARD', KEYS[1]))
  if early >= 0 then
    -- It follows the call that makes room for it: one already made, or one before it in line.
    local made = redis.call('ZRANGE', KEYS[1], early % limit, early % limit, 'WITHSCORES')[2]
    wait = math.max(wait, (made or now) + span * (1 + math.floor(early / limit)) - now + 1)
  end
  return math.ceil(math.min(wait, LONGEST_MS))
end

local function call_first()
  local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
  if not first or first == name then return end
  local limit, id = string.match(redis.call('HGET', KEYS[5], first) or '', '^(%d+) (.+)$')
  local kept = redis.call('ZSCORE', KEYS[3], first)
  if not id or not kept then return end
  local free = now + wait_at(0, tonumber(limit))
  if tonumber(kept) - LATE_MS <= free + CLOSE_MS then return end
  redis.call('ZADD', KEYS[3], digits(free + LATE_MS), first)
  -- As in `mark`: a worker that handles it at this moment must find it changed.
  redis.call('ZADD', KEYS[6], 'XX', 'INCR', -1, id)
  redis.call('ZADD', KEYS[6], 'LT', digits(now), id)
end

local function take()
  redis.call('ZADD', KEYS[2], ARGV[2], name)
  local wait = wait_at(redis.call('ZRANK', KEYS[2], name), most)
  if wait == 0 then
    redis.call('ZADD', KEYS[1], now, digits(now) .. ' ' .. name)
    redis.call('PEXPIRE', KEYS[1], span)
    leave(name)
    return 0
  end
  redis.call('ZADD', KEYS[3], digits(now + wait + LATE_MS), name)
  if ARGV[6] ~= '' then redis.call('HSET', KEYS[5], name, digits(most) .. ' ' .. ARGV[6]) end
  for _, key in ipairs({KEYS[2], KEYS[3], KEYS[5]}) do
    redis.call('PEXPIRE', key, digits(wait + LATE_MS + LONGEST_MS))
  end
  return wait
end

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', digits(now - span))
for _, lost in ipairs(redis.call('ZRANGE', KEYS[3], '-inf', digits(now), 'BYSCORE')) do leave(lost) end
local wait = 0
if ARGV[2] == '' then leave(name) else wait = take() end
call_first()
return wait
