-- Saves a claim made with an invitation, once.
--
-- KEYS 1 invitations and their claims, 2 events
-- ARGV 1 id, 2 the invitation with its new end, 3 the claim, 4 event data
-- Returns 1 if saved now, 0 if the invitation ended or was used.

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
if redis.call('HSETNX', KEYS[1], ARGV[1] .. ' claim', ARGV[3]) == 0 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
event(KEYS[2], 'claimed', now_ms(), '', '', '0', ARGV[4])
return 1
