"""What may be remembered with an answer, and taking it back: one, a session's, or all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from gateway.cards.remember_options import USUAL, RememberOption, scopes_of
from gateway.chat.lists_and_batches import Worklist
from gateway.errors import Conflict, InvalidRequest
from gateway.models import Action
from gateway.ports import (
    AdapterApi,
    Grant,
    Identity,
    MessageRef,
    Remember,
    StoredRequest,
    bug,
    render_safe,
)
from gateway.ports.adapter_api import Suggestion

ALL, OF_SESSION = "all", "session"
"""What may stand in the place of a grant's id."""
NOTHING_TO_REMEMBER = "This is asked about each time: nothing of it can be remembered."
NOTHING_REMEMBERED = "There are no remembered decisions that you may revoke."
ASK, SESSION, EVERYWHERE = "ask", "session", "everywhere"
AGAIN_LABEL = "When the same is asked"
AGAIN = {
    ASK: "Ask again",
    SESSION: "Deny exactly this for a day, in this session",
    EVERYWHERE: "Deny exactly this for a day, in all sessions",
}
"""What a denial does when the same is asked, the default first."""
NEXT_TIME = "To have it remembered, choose Remember… on the next such card."
NOT_AGAIN = "Not again"
"""The button that takes a no to a suggestion."""
_NOTHING_TO_REVOKE = "there is nothing that you may revoke"
_DENIED_FOR = "1d"
_LOOK_SECONDS = 1.0  # whoever pressed a button waits
_T = TypeVar("_T")

log = logging.getLogger("gateway.chat")


def remember_denial(again: str) -> Remember | None:
    """Return how a denial is remembered, None where the person is asked again."""
    if again not in (SESSION, EVERYWHERE):
        return None
    return Remember(everywhere=again == EVERYWHERE, lifetime=_DENIED_FOR)


class Remembering:
    """Offers what may be remembered, and takes it back."""

    def __init__(self, api: AdapterApi) -> None:
        self._api = api
        self._worklist = Worklist(api)

    async def list_options(
        self, identity: Identity, record: StoredRequest, action: Action, most: int
    ) -> list[RememberOption]:
        """Return what this person may have remembered with an action, so many at most."""
        passes = await self._api.requests.may_pass(identity, record)
        scopes = scopes_of(record, action, passes=passes)
        last = [one for one in scopes if one.session_pass]
        others = [one for one in scopes if not one.session_pass]
        return [*others[: most - len(last)], *last]

    async def find_reach(
        self, record: StoredRequest, options: Sequence[RememberOption]
    ) -> dict[str, str]:
        """Return by the id of an option what it would have covered recently."""
        reach = self._api.requests.reach
        said = await asyncio.gather(*(reach(record.id, one.id) for one in options))
        return dict(zip((one.id for one in options), said, strict=True))

    async def find_usual(self, record: StoredRequest, reach: dict[str, str]) -> str:
        """Return the id of the option to choose first, which its reach says then; "" for the
        narrowest, also where it takes long to find out."""
        usual = await _look(self._api.suggestions.find_usual(record))
        if not usual or usual not in reach:
            return ""
        reach[usual] = f"{USUAL} {reach[usual]}".strip()
        return usual

    async def suggest(self, identity: Identity, record: StoredRequest) -> Suggestion | None:
        """Return what this person could have remembered; nothing where it takes long to find."""
        return await _look(self._api.suggestions.suggest(identity, record))

    async def decline(self, identity: Identity, request_id: str, offer: str) -> str:
        """Have an offer suggested no more; return a message. Raises NotFound, InvalidRequest."""
        record = await self._api.requests.get(request_id)
        await self._api.suggestions.decline(identity, record, offer)
        return "It is not suggested again for 90 days."

    async def find_made(self, record: StoredRequest) -> Grant | None:
        """Return what was remembered with the answer to a request."""
        newest = await self._api.grants.newest()
        return next((one for one in newest if one.from_request == record.id), None)

    async def revoke(
        self, identity: Identity, what: str, *, copy: str = "", ref: MessageRef | None = None
    ) -> str:
        """Revoke one grant by its id or the beginning of it, `all`, or `session AGENT NAME`; return
        a message. `copy` and `ref` name the card on which the button was pressed.

        Raises NotFound, InvalidRequest, Conflict, Unauthorized.
        """
        first, _, whose = what.strip().partition(" ")
        if first not in (ALL, OF_SESSION):
            grant_id = await self._worklist.grant_id(identity, first)
            gone = await self._api.grants.revoke(grant_id, identity, copy=copy, ref=ref)
            return f"Revoked: {render_safe(gone.words).text}. It no longer decides anything."
        agent, _, session = whose.strip().partition(" ")
        if first == OF_SESSION and not (agent and session):
            raise InvalidRequest("write revoke session AGENT NAME")
        named = {"agent": agent, "session": session.strip()} if first == OF_SESSION else {}
        count = len(await self._api.grants.revoke_all(identity, **named))
        if not count:
            raise Conflict(_NOTHING_TO_REVOKE)
        return f"Revoked: {count}. They no longer decide anything."


async def _look(asked: Awaitable[_T]) -> _T | None:
    """Return an answer that nobody needs: whoever waits for it has something else to do."""
    try:
        async with asyncio.timeout(_LOOK_SECONDS):
            return await asked
    except Exception as error:
        log.info("no look at past answers: %s", bug(error), extra={"event": "look_failed"})
        return None
