"""Sign people in to the inbox without a one-time link: by passkey, identity provider or chat link.

The package verifies who a person is, looks the person up through `stores`, and makes
`stores.sign_in` open the session. Start at `logins`, which adapters get as their `Logins`.
"""
