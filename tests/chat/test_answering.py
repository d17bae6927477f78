"""What forms say of one request, and what people are told, the same in each chat."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.cards.card import Choice, Field
from gateway.cards.forms import WrongField
from gateway.chat.answering import (
    REASON,
    Answering,
    describe_error,
    describe_state,
    find_numbered,
    find_reason,
    read_answers,
    read_denial,
    warn_of_tries,
)
from gateway.chat.remembering import ASK, EVERYWHERE, SESSION
from gateway.errors import Conflict, InvalidRequest, NotFound, Unauthorized, Unreachable
from gateway.models import Action, FieldKind, Status
from gateway.ports import AdapterApi, Identity, make_visible
from tests.chat.conftest import press
from tests.world import World, click, identity


async def test_a_stranger_gets_no_form_and_is_noted(world: World, answering: Answering) -> None:
    """Who may not decide is refused before anything is shown."""
    record = await world.submit()
    with pytest.raises(Unauthorized, match="not an approver"):
        await answering.get_open(press(record, "eve"))
    (noted,) = [one for one in await world.events() if one.type == "refused"]
    assert (noted.agent, noted.data["request_id"]) == ("token:eve", record.id)
    with pytest.raises(Unauthorized):
        await answering.check_viewer(press(record, "eve"))


async def test_groups_are_asked_where_they_matter(answering: Answering, world: World) -> None:
    """An approver decides without them; of others the platform is asked, once."""
    asked: list[str] = []

    async def groups() -> tuple[str, ...]:
        asked.append("groups")
        return ()

    record = await world.submit()
    await answering.check_approver(replace(press(record), groups=groups))
    assert not asked
    with pytest.raises(Unauthorized):
        await answering.check_approver(replace(press(record, "eve"), groups=groups))
    assert asked == ["groups"]


async def test_a_form_belongs_to_what_was_shown(world: World, answering: Answering) -> None:
    """What was decided meanwhile opens no form, and says how; what changed is looked at again."""
    record = await world.submit()
    old = replace(press(record), revision=0)
    with pytest.raises(Conflict, match="has changed since you saw it"):
        await answering.get_open(old)
    await world.core.requests.decide(click(record, Action.DENY))
    with pytest.raises(Conflict, match="decided already: Denied by ann"):
        await answering.get_open(press(record, "bob"))


async def test_a_card_for_a_form_has_every_control(world: World, answering: Answering) -> None:
    """It shows only a part of what runs, and says where all of it is."""
    record = await world.submit(arguments={"command": "echo " + "x" * 5000})
    card = await answering.build_for_form(record)
    assert not card.complete
    assert Action.EDIT in {one.action for one in card.controls}
    assert card.inbox.endswith(f"/r/{record.id}")


async def test_who_looks_is_told_from_others(world: World, answering: Answering) -> None:
    """Whoever said that they are looking may take it back; the others see it."""
    record = await world.submit()
    record = await answering.claim(press(record), on=True)
    assert (await answering.build_own(record, identity("ann")))[1]
    assert not (await answering.build_own(record, identity("bob")))[1]
    assert describe_state(record) == "It is still pending."


async def test_a_denial_says_all_that_was_typed(world: World, answering: Answering) -> None:
    """The reason tapped and the one typed, the note, and how long the same is denied."""
    record = await world.submit()
    said = read_denial(tapped=find_reason("1"), reason=" use staging ", note="mine", again=SESSION)
    done = await answering.decide(press(record), Action.DENY, **said)
    assert done.decision is not None
    assert done.decision.message == "This is the wrong target. use staging"
    assert done.note == "mine"
    assert (await world.submit()).status is Status.DENIED


def test_a_denial_is_remembered_as_chosen() -> None:
    """In the session, in all of them, or not at all."""
    assert read_denial(again=ASK)["remember"] is None
    assert read_denial(again="")["remember"] is None
    here, everywhere = (read_denial(again=one)["remember"] for one in (SESSION, EVERYWHERE))
    assert (here.everywhere, everywhere.everywhere) == (False, True)
    assert here.lifetime == everywhere.lifetime == "1d"


def test_another_plan_needs_words() -> None:
    """Those that were tapped are words, too."""
    with pytest.raises(WrongField) as wrong:
        read_denial(replan=True, reason="  ")
    assert wrong.value.field == REASON
    assert read_denial(replan=True, tapped=find_reason("0"))["feedback"]
    for number in ("", "4", "-1", "x"):
        with pytest.raises(InvalidRequest):
            find_reason(number)


def _field(kind: FieldKind, *values: str) -> Field:
    choices = tuple(Choice(value=one, label=make_visible(one)) for one in values)
    return Field(id="f", text=make_visible("How many"), kind=kind, choices=choices)


@pytest.mark.parametrize(
    ("field", "given", "answer"),
    [
        (_field(FieldKind.TEXT), "so", "so"),
        (_field(FieldKind.NUMBER), " 3.5 ", 3.5),
        (_field(FieldKind.BOOLEAN), ["no"], False),
        (_field(FieldKind.BOOLEAN), "yes", True),
        (_field(FieldKind.CHOICE, "a", "b"), "1", "b"),
        (_field(FieldKind.CHOICE, "a", "b"), ["0"], "a"),
        (_field(FieldKind.CHOICES, "a", "b"), ["0", "1"], ["a", "b"]),
    ],
)
def test_answers_arrive_as_what_they_are(
    field: Field, given: str | list[str], answer: object
) -> None:
    """Whether a platform sends a choice as one value or as a list."""
    assert read_answers([field], [given]) == {"f": answer}


@pytest.mark.parametrize("empty", [None, "", []])
def test_empty_answers_are_left_out(empty: list[str] | None) -> None:
    """Nobody who chose nothing has answered."""
    assert read_answers([_field(FieldKind.BOOLEAN)], [empty]) == {}


@pytest.mark.parametrize("given", ["many", "true", "1 2"])
def test_a_wrong_number_is_refused_by_the_name_of_its_field(given: str) -> None:
    """Not by the name that only the agent's code knows."""
    with pytest.raises(WrongField, match="'How many' is not a number"):
        read_answers([_field(FieldKind.NUMBER)], [given])


@pytest.mark.parametrize("given", [["2"], ["x"]])
def test_only_what_is_offered_is_chosen(given: list[str]) -> None:
    """A forged choice is refused."""
    with pytest.raises(WrongField, match="is not one of the choices"):
        read_answers([_field(FieldKind.CHOICES, "a", "b")], [given])


def test_the_tries_that_are_left_are_said() -> None:
    """Before each of them."""
    assert "3 tries are left" in warn_of_tries(0)
    assert "1 try is left: the third wrong number denies the request" in warn_of_tries(2)


async def test_a_number_is_asked_for_only_where_one_is_shown(
    world: World, answering: Answering
) -> None:
    """A forged press on it opens no form."""
    card = await answering.build_whole(await world.submit())
    with pytest.raises(InvalidRequest, match="no longer needs a number"):
        find_numbered(card)


@pytest.mark.parametrize(
    ("error", "sign", "said"),
    [
        (NotFound("x"), "🗑️", "This request is no longer available."),
        (Unauthorized("you may not"), "⛔", "You may not."),
        (Conflict("it is done."), "ℹ️", "It is done."),  # noqa: RUF001 (the sign is for people)
        (InvalidRequest("no number"), "✏️", "No number. Nothing was decided."),
        (Unreachable("gone"), "⚠️", "Not recorded: the gateway cannot reach its store."),
        (TimeoutError(), "⚠️", "Something went wrong; probably nothing was recorded"),
        (ValueError("secret"), "⚠️", "Something went wrong; probably nothing was recorded"),
    ],
)
def test_errors_are_told_without_claiming_more_than_is_known(
    error: Exception, sign: str, said: str
) -> None:
    """As a sentence, with a sign for who reads only that."""
    found = describe_error(error)
    assert found[0] == sign
    assert found[1].startswith(said)
    assert "secret" not in found[1]


async def test_an_identity_stands_where_no_name_is_known(api: AdapterApi, world: World) -> None:
    """Cards name people as the policy does, others as they are written."""
    record = await world.submit()
    answering = Answering(api, "token", lines=30, chars=1500)
    zoe = Identity(platform="token", id="zoe")
    card, mine = await answering.build_own(record, zoe)
    assert (card.request_id, mine) == (record.id, False)
