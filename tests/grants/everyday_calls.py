"""How many everyday calls of coding agents need nobody, after a person remembered 40 of them.

Somebody who saw neither the code nor its tables wrote both files of the corpus, and for each of
the 500 calls whether it should ask. `python -m tests.grants.everyday_calls` prints the counts.

People use one agent, so a command that one host sent is remembered for the shells of all hosts.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, cast

from gateway.domain.policy_document import Mode, PolicyDocument, Route
from gateway.domain.records import Person, StoredRequest
from gateway.domain.time_and_tasks import SystemClock
from gateway.models import Context, Kind
from gateway.policy.authorization import ADMIN
from gateway.policy.calls.argument_roles import find_known_tools
from gateway.policy.chain import ALLOW, Chain
from gateway.policy.grant_book import GrantBook, GrantStore
from gateway.policy.grants.grant import PASSES, Grant, GrantVoter, Shape
from gateway.policy.grants.offers import Offer, offers, passes_for
from gateway.policy.guardrails import assess
from tests.grants.making import granted
from tests.unit.test_transitions import record
from tests.world import request

CORPUS = Path(__file__).parent / "corpus"
# What the hosts call their shells, and what stands beside the command.
SHELLS = ("Bash", "shell", "execute_bash", "run_shell_command", "run_terminal_cmd", "run_cmd")


class Answer(NamedTuple):
    """What one call of the corpus got."""

    call: dict[str, Any]
    allowed: bool
    message: str


def read_calls(name: str) -> list[dict[str, Any]]:
    """Return the calls of a file of the corpus."""
    lines = (CORPUS / f"{name}_calls.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def as_request(call: dict[str, Any]) -> StoredRequest:
    """Return a call of the corpus as the gateway gets it from a hook."""
    kinds = [row.kind for row in find_known_tools(call["tool"]) if row.fits(call["arguments"])]
    kind = next((one for one in kinds if one is not None), Kind(call["kind"]))
    asked = request(tool=call["tool"], kind=kind, arguments=call["arguments"],
                    context=Context(cwd=call["cwd"]))  # fmt: skip
    route = Route(name="all", agents=("*",), approvers=("ann",), targets=("web:x",), mode=Mode.ASK)
    return assess(record(request=asked), PolicyDocument(routes=(route,)).ruling_on(asked))


def spread(call: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """Yield a remembered call as each host would send it."""
    if call["tool"] not in SHELLS:
        yield call
        return
    text = call["arguments"]["command"]
    text = text[-1] if isinstance(text, list) else text
    for tool in SHELLS:
        command = ["bash", "-lc", text] if tool == "shell" else text
        arguments = {"command": command}
        beside = {"shell": {"workdir": call["cwd"]}, "run_terminal_cmd": {"is_background": False},
                  "execute_bash": {"is_input": "false"}}  # fmt: skip
        arguments |= beside.get(tool, {})
        yield {**call, "tool": tool, "arguments": arguments}


def remember(calls: Iterable[dict[str, Any]]) -> list[Grant]:
    """Return the widest approval, no pass, that is offered for each call."""
    found: list[Grant] = []
    ann = GrantVoter(person="ann", via=(ADMIN,))
    for call in calls:
        for one in spread(call):
            asked = as_request(one)
            made = [each for each in (*passes_for(asked), *reversed(offers(asked)))
                    if each.match.shape not in PASSES]  # fmt: skip
            found += [granted(max(made, key=_width).match, backers=(ann,))] if made else []
    return found


def _width(offer: Offer) -> tuple[bool, int]:
    """Return how wide an offer is; of two that are alike the first counts."""
    flags = [len(rule.command.flags) for rule in offer.match.rules if rule.command is not None]
    return offer.match.shape is Shape.LOOKS, sum(flags)


class InMemory:
    """The approvals of a book, in memory."""

    def __init__(self, grants: list[Grant]) -> None:
        self.grants = grants

    async def about(self, agent: str, tool: str, digest: str) -> tuple[int, list[Grant]]:
        """Return the approvals that may cover such a request."""
        mine = (one for one in self.grants if one.agent == agent)
        return 0, [one for one in mine if one.match.tool in (tool, "*")
                   or one.match.digest == digest]  # fmt: skip

    async def count(self) -> tuple[int, int]:
        """Return how many there are."""
        return 0, len(self.grants)

    async def of_session(self, agent: str, session: str, *, denials: bool = True) -> list[Grant]:
        """Return none: nothing here is a session's."""
        return []

    async def page(self, *, after: str | None, limit: int) -> tuple[list[Grant], str | None]:
        """Return all of them."""
        return self.grants, None


def book_of(grants: list[Grant]) -> GrantBook:
    """Return a book of these approvals."""
    return GrantBook(cast(GrantStore, InMemory(grants)), SystemClock())


async def answer(calls: Iterable[dict[str, Any]], grants: list[Grant]) -> list[Answer]:
    """Return what the chain of remembered decisions says to each call."""
    route = Route(name="all", agents=("*",), approvers=("ann",), targets=("web:x",), mode=Mode.ASK)
    person = Person(name="ann", identities=("token:ann",), admin=True)
    book = book_of(grants)
    book.at(PolicyDocument(people=(person,), routes=(route,), generation=0))
    chain = Chain(book.deciders)
    found: list[Answer] = []
    for call in calls:
        asked = as_request(call)
        verdict = (await chain.decide(asked, route)).verdict
        allowed = verdict is not None and verdict.effect == ALLOW
        found.append(Answer(call, allowed, await chain.asks_because(asked)))
    return found


def main() -> None:
    """Print the counts, and with `--asked` or `--wrong` the calls."""
    found = asyncio.run(answer(read_calls("everyday"), remember(read_calls("remembered"))))
    wrong = [one for one in found if one.allowed and one.call["asks"]]
    asked = [one for one in found if not one.allowed and not one.call["asks"]]
    told = [f"{sum(one.allowed for one in found)} of {len(found)} calls need nobody; of these "
            f"{len(wrong)} should ask. {len(asked)} ask and need not."]  # fmt: skip
    for one in (wrong if "--wrong" in sys.argv else []) + (asked if "--asked" in sys.argv else []):
        told.append(f"{one.call['tool']} {one.call['cwd']} {json.dumps(one.call['arguments'])} "
                    f"| {one.message}")  # fmt: skip
    sys.stdout.write("\n".join(told) + "\n")


if __name__ == "__main__":
    main()
