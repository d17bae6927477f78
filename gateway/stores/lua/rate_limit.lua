-- Takes one call from a budget that all replicas share (a leaky bucket, stored as the time it empties).
--
-- KEYS 1 budget. ARGV 1 ms per call, 2 how many at once. Returns the ms to wait first.

local now = now_ms()
local each, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local free = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now)
local wait = math.max(0, math.ceil(free + each - now - each * burst))
redis.call('SET', KEYS[1], digits(free + each), 'PX', digits(free + each - now + 1000))
return wait
