-- Gives a call its turn under a platform's limit, which all replicas share: at most so many calls in any
-- so many ms, first that of the lowest rank that waits. Whoever must wait stands in line, and loses the
-- place by not coming back in time.
-- KEYS 1 calls by when they began, 2 who waits, by rank, 3 until when the place of each is kept, 4 is there
--      while the platform refuses such calls
-- ARGV 1 name, 2 rank, 3 most calls, 4 in so many ms, 5 how many of them this one leaves to others
-- Returns the ms to wait, 0 when it is its turn.

local LATE_MS = 3000  -- after which whoever does not come back has lost the place
local LONGEST_MS = 30000  -- those before it may have lost their places by then

local now, name, span = now_ms(), ARGV[1], tonumber(ARGV[4])
local most = math.max(1, tonumber(ARGV[3]) - tonumber(ARGV[5]))
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', digits(now - span))
for _, lost in ipairs(redis.call('ZRANGE', KEYS[3], '-inf', digits(now), 'BYSCORE')) do
  redis.call('ZREM', KEYS[2], lost)
  redis.call('ZREM', KEYS[3], lost)
end
redis.call('ZADD', KEYS[2], ARGV[2], name)
local place, done = redis.call('ZRANK', KEYS[2], name), redis.call('ZCARD', KEYS[1])
local shut = math.max(0, redis.call('PTTL', KEYS[4]))
local early = place - (most - done)
if early < 0 and shut == 0 then
  redis.call('ZADD', KEYS[1], now, digits(now) .. ' ' .. name)
  redis.call('PEXPIRE', KEYS[1], span)
  redis.call('ZREM', KEYS[2], name)
  redis.call('ZREM', KEYS[3], name)
  return 0
end
local wait = shut
if early >= 0 then
  -- It follows the call that makes room for it: one that was made, or one of those before it in line.
  local made = redis.call('ZRANGE', KEYS[1], early % most, early % most, 'WITHSCORES')[2]
  wait = math.max(wait, (made or now) + span * (1 + math.floor(early / most)) - now + 1)
end
wait = math.min(wait, LONGEST_MS)
redis.call('ZADD', KEYS[3], digits(now + wait + LATE_MS), name)
redis.call('PEXPIRE', KEYS[2], digits(wait + LATE_MS + LONGEST_MS))
redis.call('PEXPIRE', KEYS[3], digits(wait + LATE_MS + LONGEST_MS))
return math.ceil(wait)
