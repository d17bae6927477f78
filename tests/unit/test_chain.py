"""The chain of deciders."""

import asyncio
from dataclasses import dataclass, replace
from itertools import product

import pytest

from gateway.domain.policy_document import Mode, Route
from gateway.domain.records import StoredRequest
from gateway.models import DecidedBy, DeciderKind, Risk, RiskLevel
from gateway.policy.chain import ALLOW, ASK, DENY, LATER, Chain, ModeDecider, find_decisive
from gateway.policy.hooks import HookFailed
from gateway.policy.verdict import Decider, Verdict
from tests.sweeps import sweep
from tests.unit.test_transitions import form, record


@dataclass
class Fixed:
    name: str
    priority: int
    effect: str | None
    asked: int = 0

    async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
        """Answer as told; `broken` raises."""
        self.asked += 1
        if self.effect == "broken":
            raise RuntimeError("broken")
        if self.effect is None:
            return None
        by = DecidedBy(kind=DeciderKind.RULE, name=self.name)
        return Verdict(effect=self.effect, by=by)


async def decided(deciders: list[Decider], *, stored: bool = True) -> Verdict | None:
    """Return what a chain of these says to a request."""
    return (await Chain(deciders).decide(record(), Route(), stored=stored)).verdict


@pytest.mark.parametrize(
    ("error", "traced"),
    [(HookFailed("a hook does not say whether it approves"), False), (KeyError("x"), True)],
)
async def test_a_decider_that_says_why_it_failed_needs_no_traceback(
    caplog: pytest.LogCaptureFixture, error: Exception, traced: bool
) -> None:
    """One line names it; a mistake of its code is traced. Nothing below it allows any more."""

    class Failing(Fixed):
        async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
            raise error

    assert await decided([Failing("mine", 5, None), Fixed("low", 1, ALLOW)]) is None
    (line,) = (one for one in caplog.records if "mine" in one.getMessage())
    assert str(error) in line.getMessage()
    assert bool(line.exc_info) is traced


class Slow(Fixed):
    """One that is asked once the request is stored."""

    after_storing = True


async def test_a_slow_decider_is_asked_once_the_request_is_stored() -> None:
    """What stands above it answers at once; neither it nor what stands below is asked before."""
    slow, low = Slow("slow", 5, None), Fixed("low", 1, ALLOW)
    before = await decided([low, slow], stored=False)
    assert before is not None
    assert (before.effect, slow.asked, low.asked) == (LATER, 0, 0)
    after = await decided([low, slow])
    assert after is not None
    assert (after.effect, slow.asked, low.asked) == (ALLOW, 1, 1)
    denied = await decided([slow, Fixed("high", 9, DENY)], stored=False)
    assert denied is not None
    assert (denied.effect, slow.asked) == (DENY, 1)


@sweep("effects", list(product((None, ALLOW, DENY, ASK, "broken"), repeat=3)), ids=str, few=20)
async def test_what_explain_names_is_what_decides(effects: tuple[str | None, ...]) -> None:
    """Whatever the deciders say, in whatever order."""
    deciders = [Fixed(f"d{number}", 9 - number, one) for number, one in enumerate(effects)]
    chain = Chain(deciders)
    verdict = (await chain.decide(record(), Route())).verdict
    told = find_decisive(await chain.explain(record(), Route()))
    found = verdict and (verdict.effect, verdict.by.name)
    assert found == (told and (told.effect, told.decider))


async def test_the_highest_priority_answers_first_and_ends_it() -> None:
    """First answer wins; those below are not asked."""
    low, high, none = Fixed("low", 1, ALLOW), Fixed("high", 9, DENY), Fixed("none", 99, None)
    verdict = await decided([low, none, high])
    assert verdict is not None
    assert (verdict.effect, verdict.by.name, low.asked) == (DENY, "high", 0)


async def test_no_answer_means_people() -> None:
    """An empty chain, or one without opinions, asks."""
    assert await decided([]) is None
    assert await decided([Fixed("none", 1, None)]) is None


async def test_after_a_failure_nothing_allows_any_more_but_denials_count() -> None:
    """A decider that fails could have denied, so nothing below it may allow."""
    broken = Fixed("broken", 9, "broken")
    assert await decided([broken, Fixed("allow", 1, ALLOW)]) is None
    verdict = await decided([broken, Fixed("deny", 1, DENY)])
    assert verdict is not None
    assert verdict.effect == DENY


@pytest.mark.parametrize(
    ("mode", "effect"), [(Mode.ASK, None), (Mode.AUTO_APPROVE, ALLOW), (Mode.AUTO_DENY, DENY)]
)
async def test_modes(mode: Mode, effect: str | None) -> None:
    """Each mode does what it is called, and says that a rule decided."""
    verdict = await ModeDecider().decide(record(), Route(mode=mode))
    assert (verdict.effect if verdict else None) == effect
    if verdict:
        assert verdict.by.kind is DeciderKind.RULE


async def test_no_mode_answers_a_question_for_people() -> None:
    """A question needs an answer, which no mode has."""
    assert await ModeDecider().decide(form(), Route(mode=Mode.AUTO_APPROVE)) is None


async def test_explain_shows_every_decider_and_its_failure() -> None:
    """The operator sees all links, in order, failures included."""
    chain = Chain([Fixed("b", 1, None), Fixed("a", 9, "broken"), Fixed("c", 0, DENY)])
    found = [(one.decider, one.effect) for one in await chain.explain(record(), Route())]
    assert found == [("a", "failed"), ("b", "no opinion"), ("c", "deny")]


@pytest.mark.parametrize(
    ("effect", "kind"),
    [("maybe", DeciderKind.RULE), (ALLOW, DeciderKind.PERSON), (ALLOW, DeciderKind.SYSTEM)],
)
async def test_an_answer_that_nobody_can_act_on_is_a_failure(
    effect: str, kind: DeciderKind
) -> None:
    """A made-up effect, or a decision in a person's name, allows nothing, here nor below."""

    class Strange:
        name, priority = "strange", 5

        async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
            """Answer strangely."""
            return Verdict(effect=effect, by=DecidedBy(kind=kind, name="ann"))

    assert await decided([Strange(), Fixed("allow", 1, ALLOW)]) is None


@sweep("effects", list(product((None, ALLOW, DENY, ASK, "broken"), repeat=3)), ids=str, few=20)
async def test_no_decider_allows_high_risk(effects: tuple[str | None, ...]) -> None:
    """Whatever they say, in whatever order: a denial counts, else people are asked; explain says
    so."""
    high = replace(record(), risk=Risk(level=RiskLevel.HIGH))
    chain = Chain([Fixed(f"d{number}", 9 - number, one) for number, one in enumerate(effects)])
    verdict = (await chain.decide(high, Route())).verdict
    opinions = await chain.explain(high, Route())
    told = find_decisive(opinions)
    assert (verdict and verdict.effect) == (DENY if DENY in effects else None)
    assert (verdict and verdict.by.name) == (told and told.decider)
    said = [(one.effect, "high-risk" in one.message) for one in opinions]
    assert [one for one, effect in zip(said, effects, strict=True) if effect == ALLOW] == [
        (ASK, True)
    ] * effects.count(ALLOW)


async def test_who_names_no_time_of_its_own_has_the_chains() -> None:
    """A decider that takes longer has failed: people are asked."""

    class Hanging:
        name, priority = "hanging", 9

        async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
            """Wait for ever."""
            await asyncio.Event().wait()
            return None

    chain = Chain([Hanging(), Fixed("allow", 1, ALLOW)], seconds=0.01)
    assert (await chain.decide(record(), Route())).verdict is None
    assert [one.effect for one in await chain.explain(record(), Route())] == ["failed", ALLOW]
