-- Finds everything that is due.
--
-- KEYS 1 deadlines, 2 processes, 3 sessions, 4 pending, 5 meta. ARGV 1 idle time of a session in ms,
-- 2 limit of each kind. Returns {now, ids past their deadline, lapsed processes, idle sessions, ids that
-- are pending although the kill switch is on}.

local now = now_ms()
local function until_(key, limit_ms)
  return redis.call('ZRANGE', key, '-inf', digits(limit_ms), 'BYSCORE', 'LIMIT', 0, ARGV[2])
end
local stopped = {}
if redis.call('HEXISTS', KEYS[5], 'stopped') == 1 then
  stopped = redis.call('ZRANGE', KEYS[4], 0, tonumber(ARGV[2]) - 1)
end
local idle = now - tonumber(ARGV[1])
return {now, until_(KEYS[1], now), until_(KEYS[2], now), until_(KEYS[3], idle), stopped}
