"""Ways to sign in to the inbox beside a one-time link: passkeys, an identity provider, a chat link.

It verifies who a person is, looks them up through `stores`, and lets `stores.sign_in` open the
session. Start at `logins`, which adapters get as their `Logins`.
"""
