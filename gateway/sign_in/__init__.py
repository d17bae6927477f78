"""Ways to sign in to the inbox besides a one-time link: passkeys, an identity provider,
a link from a chat.

Reads who is known through `stores`, proves who somebody is, and has `stores.sign_in` begin
the session. Decides nothing else. Enter at `ways`, what adapters get as their `Logins`.
"""
