-- What the clock asks for. KEYS 1 deadlines, 2 processes, 3 sessions. ARGV 1 idle time of a session in
-- ms, 2 how many of each at most. Returns {ids past their deadline, lapsed processes, idle sessions}.

local now = now_ms()
local function until_(key, limit_ms)
  return redis.call('ZRANGE', key, '-inf', digits(limit_ms), 'BYSCORE', 'LIMIT', 0, ARGV[2])
end
return {until_(KEYS[1], now), until_(KEYS[2], now), until_(KEYS[3], now - tonumber(ARGV[1]))}
