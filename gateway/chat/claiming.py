"""Add a channel or an account to the policy from a chat, with the commands `here`, `me` and
`who`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.cards.shared_texts import clip
from gateway.errors import GatewayError, InvalidRequest
from gateway.ports import AdapterApi, Claimant, ClaimedPlace, Identity, render_safe

HERE, ME, WHO = "here", "me", "who"
"""The words after a chat's command, or its subcommands."""
_NOT_OF_CODES = re.compile(r"[^0-9A-Z]")
_CODE_CHARS, _NAME_CHARS = 8, 80
_SQUARE = str.maketrans("()", "[]")


class NotClaimed(GatewayError):
    """A channel or an account was not added to the policy. The text tells the person why."""

    code = "not_claimed"


@contextmanager
def _explaining() -> Iterator[None]:
    try:
        yield
    except InvalidRequest as refused:
        # It may end with a line for the policy file, so it gets no full stop.
        raise NotClaimed(f"{refused}\nNothing was changed.") from refused


def read_code(typed: str) -> str:
    """Return a typed code in the form that the terminal shows, `K7QF-2M9X`. Raises NotClaimed if it
    is not a code. Such a mistake does not count as a try."""
    letters = _NOT_OF_CODES.sub("", typed.upper())
    if len(letters) != _CODE_CHARS:
        raise NotClaimed(
            "this is not a code; type the code as the terminal shows it, such as K7QF-2M9X"
        )
    return f"{letters[:4]}-{letters[4:]}"


async def claim_place(api: AdapterApi, typed: str, by: Claimant, place: ClaimedPlace) -> str:
    """Claim a channel with a setup code. Return the text for the person. Raises NotClaimed,
    Unauthorized."""
    with _explaining():
        number = await api.claims.claim(read_code(typed), by, place)
    return _say_number(
        number, "whether requests come to this channel and whether you may decide them"
    )


async def claim_account(api: AdapterApi, typed: str, by: Claimant) -> str:
    """Claim an account with a code from `gateway approver link`. Return the text for the person.
    Raises NotClaimed, Unauthorized."""
    with _explaining():
        number = await api.claims.claim(read_code(typed), by)
    return _say_number(number, "whether this account is yours")


def _say_number(number: str, what: str) -> str:
    return (
        f"Your number is {number}. The person who runs the gateway sees the same number and "
        f"decides {what}. Nothing changes before that decision."
    )


async def list_other_routes(
    api: AdapterApi, identity: Identity, place: ClaimedPlace
) -> tuple[str, ...]:
    """Return the routes whose requests an admin may also send to a channel. Raises NotClaimed if
    there are none, and Unauthorized."""
    with _explaining():
        routes = await api.claims.list_routes(identity)
    found = tuple(one.name for one in routes if place.target not in one.targets)
    if not found:
        why = "the requests of every route come here already" if routes else "there is no route yet"
        raise NotClaimed(why)
    return found


async def add_place(api: AdapterApi, identity: Identity, route: str, place: ClaimedPlace) -> str:
    """Also send a route's requests to a channel, for an admin. Return the text for the admin.
    Raises NotClaimed, Unauthorized, NotFound."""
    with _explaining():
        return await api.claims.add_place(identity, route, place)


async def describe_who(api: AdapterApi, identity: Identity, target: str = "") -> str:
    """Return a person's name in the policy, the channel's `target` if given, and the admins."""
    person = await api.requests.person(identity)
    known = f"the policy names you {person.name}" if person else "the policy does not name you"
    place = f" This channel is {target}." if target else ""
    return f"You are {identity.written}: {known}.{place} {await _name_admins(api)}"


async def introduce_stranger(api: AdapterApi, identity: Identity, told: str) -> str:
    """Return a text for a person. If they are not in the policy, add their identity and the names
    of the admins to the text."""
    if await api.requests.person(identity) is not None:
        return told
    known = identity.written in told  # a refusal to decide already names it
    who = await _name_admins(api) if known else await describe_who(api, identity)
    return f"{told.rstrip('.')}. {who}"


async def _name_admins(api: AdapterApi) -> str:
    names = await api.claims.list_admins()
    if not names:
        return "There is no admin yet."
    *others, last = names
    return f"Admins: {', '.join(others)} and {last}." if others else f"Admin: {last}."


# Descriptions by which the operator decides. People and channels choose their names themselves.


def describe_member(name: str, handle: str, user_id: str) -> str:
    """Return a description of a person, such as `Ana Perez (@ana, full member, U024BE7LH)`."""
    return f"{_clean(name)} (@{_clean(handle)}, full member, {user_id})"


def describe_place(name: str, home: str, facts: str) -> str:
    """Return a description of a channel, such as `#ops of Acme (34 members, not shared)`, with the
    facts in brackets."""
    return f"#{_clean(name)} of {_clean(home)} ({facts})"


def _clean(name: str) -> str:
    """Return a name in one line, without round brackets, because a name with brackets could imitate
    the gateway's facts."""
    plain = unicodedata.normalize("NFKC", name)  # brackets of other widths are brackets
    return clip(" ".join(render_safe(plain).text.split()).translate(_SQUARE), _NAME_CHARS)
