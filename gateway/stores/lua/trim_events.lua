-- Drops the oldest events and their seals if the archive is unchanged since it was read: they are in it by
-- now, or past retention.
--
-- KEYS 1 events, 2 seals, 3 meta. ARGV 1 the archive cursor as read, '' if there was none, 2 the new one,
-- 3 the first event to keep, 4 the first seal to keep.
-- Returns 1, or 0 if another gateway was faster.

if (redis.call('HGET', KEYS[3], 'archived') or '') ~= ARGV[1] then return 0 end
redis.call('XTRIM', KEYS[1], 'MINID', ARGV[3])
redis.call('XTRIM', KEYS[2], 'MINID', ARGV[4])
redis.call('HSET', KEYS[3], 'archived', ARGV[2])
return 1
