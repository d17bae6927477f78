"""Save, suggest and revoke grants from a chat. Start reading at `Remembering`."""

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
"""Words to use instead of a grant's id."""
NOTHING_TO_REMEMBER = "This request requires approval each time, so it cannot be remembered."
NOTHING_REMEMBERED = "There are no grants that you can revoke."
ASK, SESSION, EVERYWHERE = "ask", "session", "everywhere"
AGAIN_LABEL = "If the agent submits the same request again"
AGAIN = {
    ASK: "Ask again",
    SESSION: "Deny exactly this for a day, in this session",
    EVERYWHERE: "Deny exactly this for a day, in all sessions",
}
"""The effects of a denial on an identical request, the default first."""
NEXT_TIME = "To save a grant, choose Remember… on the next card like this."
NOT_AGAIN = "Not again"
"""The label of the button that declines a suggestion."""
_NOTHING_TO_REVOKE = "there are no grants that you may revoke"
_DENIED_FOR = "1d"
_LOOK_SECONDS = 1.0  # the person who pressed a button waits meanwhile
_T = TypeVar("_T")

log = logging.getLogger("gateway.chat")


def remember_denial(again: str) -> Remember | None:
    """Return the grant to save with a denial, or None if people should be asked again next time."""
    if again not in (SESSION, EVERYWHERE):
        return None
    return Remember(everywhere=again == EVERYWHERE, lifetime=_DENIED_FOR)


class Remembering:
    """Offers grants to save with a decision, and revokes grants."""

    def __init__(self, api: AdapterApi) -> None:
        self._api = api
        self._worklist = Worklist(api)

    async def list_options(
        self, identity: Identity, record: StoredRequest, action: Action, most: int
    ) -> list[RememberOption]:
        """Return at most `most` grants that this person may save with an action."""
        passes = await self._api.requests.may_pass(identity, record)
        scopes = scopes_of(record, action, passes=passes)
        last = [one for one in scopes if one.session_pass]
        others = [one for one in scopes if not one.session_pass]
        return [*others[: most - len(last)], *last]

    async def find_reach(
        self, record: StoredRequest, options: Sequence[RememberOption]
    ) -> dict[str, str]:
        """Return each option's matches in history, by its id."""
        reach = self._api.requests.reach
        said = await asyncio.gather(*(reach(record.id, one.id) for one in options))
        return dict(zip((one.id for one in options), said, strict=True))

    async def find_usual(self, record: StoredRequest, reach: dict[str, str]) -> str:
        """Return the id of the option to preselect, and mark it in `reach`. Return "" to preselect
        the narrowest, or if the search takes too long."""
        usual = await _look(self._api.suggestions.find_usual(record))
        if not usual or usual not in reach:
            return ""
        reach[usual] = f"{USUAL} {reach[usual]}".strip()
        return usual

    async def suggest(self, identity: Identity, record: StoredRequest) -> Suggestion | None:
        """Return a grant to suggest to this person. Return None without one, or if the search takes
        too long."""
        return await _look(self._api.suggestions.suggest(identity, record))

    async def decline(self, identity: Identity, request_id: str, offer: str) -> str:
        """Stop suggesting an offer, and return a message. Raises NotFound, InvalidRequest."""
        record = await self._api.requests.get(request_id)
        await self._api.suggestions.decline(identity, record, offer)
        return "You will not see this suggestion for 90 days."

    async def find_made(self, record: StoredRequest) -> Grant | None:
        """Return the grant that was saved with the decision on a request, or None."""
        newest = await self._api.grants.newest()
        return next((one for one in newest if one.from_request == record.id), None)

    async def revoke(
        self, identity: Identity, what: str, *, copy: str = "", ref: MessageRef | None = None
    ) -> str:
        """Revoke one grant, given by its id or the start of its id, or the grants meant by `all` or
        `session AGENT NAME`. Return a message.

        `copy` and `ref` identify the card with the pressed button. Raises NotFound, InvalidRequest,
        Conflict, Unauthorized.
        """
        first, _, whose = what.strip().partition(" ")
        if first not in (ALL, OF_SESSION):
            grant_id = await self._worklist.grant_id(identity, first)
            gone = await self._api.grants.revoke(grant_id, identity, copy=copy, ref=ref)
            return (
                f"Revoked: {render_safe(gone.words).text}. Matching requests require approval "
                f"again."
            )
        agent, _, session = whose.strip().partition(" ")
        if first == OF_SESSION and not (agent and session):
            raise InvalidRequest("the command is incomplete; write: revoke session AGENT NAME")
        named = {"agent": agent, "session": session.strip()} if first == OF_SESSION else {}
        count = len(await self._api.grants.revoke_all(identity, **named))
        if not count:
            raise Conflict(_NOTHING_TO_REVOKE)
        return f"Revoked: {count}. Matching requests require approval again."


async def _look(asked: Awaitable[_T]) -> _T | None:
    """Return the result of an optional search, or None if the search fails or takes too long."""
    try:
        async with asyncio.timeout(_LOOK_SECONDS):
            return await asked
    except Exception as error:
        log.info("could not read past decisions: %s", bug(error), extra={"event": "look_failed"})
        return None
