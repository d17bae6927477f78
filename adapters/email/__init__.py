"""The e-mail adapter: tells people about requests by mail, with a link to the inbox. See
docs/guides/email.md."""

from adapters.email.adapter import EmailAdapter

__all__ = ["EmailAdapter"]
