"""An identity provider: the place where an organisation's people sign in already."""

from __future__ import annotations

from typing import Protocol


class Provider(Protocol):
    """Signing in with an identity provider, by OpenID Connect."""

    @property
    def name(self) -> str:
        """The provider's host, for the button; "" where none is set."""

    async def begin(self, browser: str, *, address: str) -> str:
        """Return the provider's page to go to. `browser` is a secret that the browser keeps, and
        what comes back must come with. Raises Busy when an address asks too often, Unreachable when
        the provider does not answer."""

    async def finish(
        self, browser: str, answer: dict[str, str], *, address: str, device: str
    ) -> str:
        """Return a session of whom the provider names. `answer` is what its page came back with.
        Raises Unauthorized, with a sentence where the person is not known, and Unreachable."""
