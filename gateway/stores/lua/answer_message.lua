-- Answers a message that changed nothing, and deletes its entry.
--
-- KEYS 1 ingress, 2 reply stream
-- ARGV 1 entry, 2 '1' if the process can receive a reply, 3 verb, 4 nonce, 5 request id,
--      6 'state' or 'error', 7 its JSON

if ARGV[2] == '1' then reply(KEYS[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]) end
forget(KEYS[1], ARGV[1])
return 'ok'
