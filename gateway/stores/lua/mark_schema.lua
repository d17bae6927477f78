-- Marks a new namespace with a schema version. A namespace with data but no version lost its `meta` and
-- stays unmarked: an operator must say whether the kill switch was on.
--
-- KEYS 1 meta, then keys of which every used namespace has some. ARGV 1 the version. Returns the current
-- version, or 0 if it was lost.

even_when_full(KEYS[1])
local found = redis.call('HGET', KEYS[1], 'schema')
if found then return found end
if redis.call('EXISTS', unpack(KEYS, 2)) > 0 then return 0 end
redis.call('HSET', KEYS[1], 'schema', ARGV[1])
return ARGV[1]
