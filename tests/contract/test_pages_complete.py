"""What was on the pages, put together, is what runs: on every surface, by its own renderer."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console, Group

from adapters.discord.cards import CARD_CHARS, CARD_LINES, build_card_view
from adapters.discord.custom_ids import DiscordButton
from adapters.discord.full_view import build_full_view as discord_view
from adapters.discord.full_view import page_fits as discord_fits
from adapters.slack import cards as blocks
from adapters.slack import modals
from adapters.slack.cards import CARD_CHARS as SLACK_CHARS
from adapters.slack.cards import CARD_LINES as SLACK_LINES
from adapters.slack.payloads import Act, ModalMetadata
from adapters.terminal import screen as answering
from adapters.terminal.cards import render_card, render_runs
from adapters.web.cards import build_row, build_whole
from gateway.api.messages import masked_view
from gateway.cards.card import Card, card_of, full_view
from gateway.cli.requests import format_request, format_row, summarize_action
from gateway.domain.records import StoredRequest
from gateway.models import Action, Context, Origin
from tests.contract.read_back import Reader
from tests.contract.surfaces import unfold
from tests.contract.texts import PAYLOAD, texts, unescaped
from tests.discord.limits import TEXT, V2, check_message, units, walk
from tests.discord.messages import buttons
from tests.discord.pictures import stored
from tests.slack.counterpart.blocks import check_message as check_blocks
from tests.slack.counterpart.views import checked_view
from tests.world import request

pytestmark = pytest.mark.thorough

TEXTS = list(texts())
COPY = "0" * 22
FENCE = re.compile(r"```(?:bash|diff|json)?\n(.*?)\n```", re.DOTALL)
Json = dict[str, Any]


def asked(text: str) -> StoredRequest:
    """Return a request that runs the text, and has it in its payload too."""
    return stored(request(arguments={"command": text}, payload={"p": text}))


def alone(text: str) -> StoredRequest:
    """Return a request that runs the text and nothing else."""
    return stored(request(arguments={"command": text}))


def assert_all_told(record: StoredRequest, pages: str) -> None:
    """Check that the pages of `asked` say its text and its payload."""
    reader = Reader(record)
    found = {label: reader.text(shown) for label, shown in reader.full(pages)}
    payload = json.dumps(record.request.payload, indent=2, ensure_ascii=False)
    assert found == {"command": record.arguments["command"], "payload": payload}


def everything(record: StoredRequest) -> Card:
    """Return a card with room for all."""
    return card_of(record, lines=10**9, chars=10**9)


def sent(shown: Any) -> Json:
    """Return a Discord message, checked against its limits."""
    body: Json = {"flags": V2, "components": shown.view.to_components()}
    check_message(body, files={"request.txt"})
    return body


def discord_pages(record: StoredRequest) -> Iterator[tuple[str, Json]]:
    """Return what each page of Discord's full view shows of the text, and its message."""
    view = full_view(record, fits=discord_fits)
    button = DiscordButton(verb="read", request_id=record.id, revision=record.revision)
    card = everything(record)
    for page in range(len(view.pages)):
        message = sent(discord_view(card, view, button, page=page))
        said = [one["content"] for one in walk(message["components"]) if one["type"] == TEXT]
        (fenced,) = [one for one in said if one.startswith("```")]
        found = FENCE.fullmatch(fenced)
        assert found is not None and "```" not in found[1]
        yield found[1], message


def slack_pages(record: StoredRequest) -> Iterator[tuple[str, Json]]:
    """Return what each page of Slack's Details shows of the text, and the modal."""
    full = full_view(record, fits=modals.page_fits)
    card = everything(record)
    for page in range(len(full.pages)):
        form = ModalMetadata(record.id, record.revision, COPY, "C1", "1.1", page=page)
        view = modals.build_details(card, full, form, refusal="")
        checked_view(view, "modal")
        (box,) = [one for one in view["blocks"] if one.get("block_id") == "page"]
        yield box["elements"][0]["elements"][0]["text"], view


def acts(view: Json) -> set[str]:
    """Return the action ids of a Slack view's or message's buttons."""
    rows = [one for one in view["blocks"] if one["type"] == "actions"]
    return {str(one["action_id"]) for row in rows for one in row["elements"]}


BEGINNING = re.compile("── ⟨(?:command|payload)⟩ ──\n.", re.DOTALL)
NAMES = ("n" * 60, "*" * 60, "😀" * 60, "n" * 61, "*" * 90, "\u202e" * 20, "a\nb", "n" * 5000)


def test_every_page_of_discord_together_is_what_runs() -> None:
    """No page is blank, none is over the limits, the first has text below its label; Approve stands
    on the last alone, where all was turned. The attached file says the same."""
    for text in TEXTS:
        record = asked(text)
        pages = list(discord_pages(record))
        assert_all_told(record, "".join(page for page, _ in pages))
        assert_all_told(record, full_view(record).text)
        assert BEGINNING.match(pages[0][0])
        for page, message in pages:
            assert page
            assert ("Approve" in buttons(message)) == (message is pages[-1][1])
            assert page.count("⟨") == page.count("⟩")


def test_every_page_of_slack_together_is_what_runs() -> None:
    """No page is empty or too long; Approve stands on the last alone, where all was turned."""
    for text in TEXTS:
        record = asked(text)
        pages = list(slack_pages(record))
        assert_all_told(record, "".join(page for page, _ in pages))
        assert BEGINNING.match(pages[0][0])
        assert all(page and units(page) <= modals.PAGE_UNITS for page, _ in pages)
        found = [Act.APPROVE in acts(view) for _, view in pages]
        assert found == [False] * (len(pages) - 1) + [True]


def test_a_page_of_slack_that_is_not_whole_leaves_nothing_to_approve() -> None:
    """However it was cut, no page of Details decides then."""
    record = asked("x" * (modals.PAGE_UNITS + 1))
    full = full_view(record)
    form = ModalMetadata(record.id, record.revision, COPY, "C1", "1.1")
    view = modals.build_details(everything(record), full, form, refusal="")
    assert not acts(view)
    assert "cannot show a page in full" in json.dumps(view)


def test_a_card_with_approve_shows_all_that_runs() -> None:
    """In Discord and in Slack: by what stands in the message, not by what the core counted."""
    offered = 0
    for text in TEXTS:
        record = alone(text)
        message = sent(build_card_view(card_of(record, lines=CARD_LINES, chars=CARD_CHARS), COPY))
        said = "\n".join(one.get("content", "") for one in walk(message["components"]))
        if {"Approve", "Edit", "Respond instead", "Remember…"} & set(buttons(message)):
            offered += 1
            assert [unescaped(one) for one in FENCE.findall(said)] == [text]
        card = card_of(record, lines=SLACK_LINES, chars=SLACK_CHARS)
        _, made = blocks.build_message(card, COPY)
        check_blocks(made, blocks.MOST_UNITS)
        if {"approve", "more"} & acts({"blocks": made}) and card.complete:
            offered += 1
            assert [unescaped(one) for one in _boxes(made)] == [text]
        assert card.complete or Act.APPROVE not in acts({"blocks": made})
    assert offered > len(TEXTS) / 2


def test_a_name_is_whole_wherever_it_may_be_approved() -> None:
    """Of an argument, a tool, a host and a folder: what was cut could hide its end."""
    for name in NAMES:
        tool = f"tool{name[:90]}".replace("\n", "")
        where = Context(host=f"host{name[:300]}", cwd=f"/srv/{name[:900]}")
        record = stored(request(arguments={name: "one\ntwo"}, tool=tool, context=where))
        message = sent(build_card_view(card_of(record, lines=CARD_LINES, chars=CARD_CHARS), COPY))
        if "Approve" in buttons(message):
            said = "\n".join(one.get("content", "") for one in walk(message["components"]))
            assert_named(re.sub(r"\\([^\w\s])", r"\1", said), record)
        card = card_of(record, lines=SLACK_LINES, chars=SLACK_CHARS)
        _, made = blocks.build_message(card, COPY)
        check_blocks(made, blocks.MOST_UNITS)
        if Act.APPROVE in acts({"blocks": made}):
            assert_named("\n".join(_strings(made)), record)
        assert_named("".join(page for page, _ in slack_pages(record)), record, only=len(name) > 60)


def assert_named(said: str, record: StoredRequest, *, only: bool = True) -> None:
    """Check that a text says all names of a request."""
    plain, wanted = unescaped(said), record.request
    (argument,) = wanted.arguments
    assert argument in plain or json.dumps(argument, ensure_ascii=False) in plain
    for name in (wanted.tool, wanted.context.host, wanted.context.cwd):
        quoted = json.dumps(name, ensure_ascii=False)
        assert not only or str(name) in plain or quoted in plain


def test_discord_leaves_out_no_folder_of_what_it_lets_approve() -> None:
    """Where others fill the line of facts, the full view has it, and alone has Approve."""
    origin = Origin(sender="*" * 58, parent_agent="*" * 58)
    where = Context(host="*" * 58, cwd="/srv/" + "*" * 53)
    base = request(arguments={"command": "ls"}, origin=origin, context=where, session="x" * 128)
    record = stored(base)
    message = sent(build_card_view(card_of(record, lines=CARD_LINES, chars=CARD_CHARS), COPY))
    assert "Approve" not in buttons(message)
    ((_, page),) = discord_pages(record)
    assert "Approve" in buttons(page)
    said = "\n".join(one.get("content", "") for one in walk(page["components"]))
    assert "/srv/" + "\\*" * 53 in said


def test_a_thousand_arguments_are_no_card_that_slack_refuses() -> None:
    """Nor one that can be approved: the rest is counted."""
    record = stored(request(arguments={f"n{number}": "a\nb" for number in range(1000)}))
    card = card_of(record, lines=SLACK_LINES, chars=SLACK_CHARS)
    _, made = blocks.build_message(card, COPY)
    check_blocks(made, blocks.MOST_UNITS)
    assert Act.APPROVE not in acts({"blocks": made})
    assert "970 more: not shown here" in _strings(made)


def test_the_web_page_gets_all_that_runs() -> None:
    """Opened always; in the list wherever its row may be approved, and nowhere else."""
    for text in TEXTS:
        record = alone(text)
        for view in (build_whole(record), build_row(record)):
            (block,) = json.loads(json.dumps(view["blocks"]))
            lines = [one if isinstance(one, str) else _joined(one) for one in block["lines"]]
            controls = {one["action"] for one in view["controls"]}
            if view["complete"]:
                assert unescaped("\n".join(lines)) == text
            assert view["complete"] == (Action.APPROVE in controls)
        assert build_whole(record)["complete"]


@pytest.mark.parametrize("width", [40, 90])
def test_the_terminal_draws_all_that_runs(width: int) -> None:
    """The full text always; the card wherever it may be approved. White space is left aside: lines
    are wrapped."""
    for text in TEXTS:
        record = alone(text)
        pages = full_view(record).pages
        assert len(pages) == 1 and unescaped(pages[0].text) == f"── ⟨command⟩ ──\n{text}"
        whole = card_of(record, lines=10**9, chars=10**9)
        drawn = unfold("".join(_printed(one, width) for one in render_runs(whole.blocks)))
        assert _squeezed(drawn) == _squeezed(pages[0].text)
        card = card_of(record, lines=answering.CARD_LINES, chars=answering.CARD_CHARS)
        if card.complete:
            panel = _printed(render_card(card, now_ms=0), width).split("\n")
            inside = unfold("\n".join(row[1:-1] for row in panel))
            assert _squeezed(card.blocks[0].text.text) in _squeezed(inside)


def test_the_command_line_prints_all_that_runs() -> None:
    """`gateway show` always; the one line wherever it says that this is all."""
    for text in TEXTS:
        record = asked(text)
        told = masked_view(record)
        rows = format_request(told).split("\n")
        assert _read_back(rows, "wants to run", "command") == text
        assert _read_back(rows, "payload", "p") == text
        seen, all_of_it = summarize_action(told)
        assert seen in format_row(told)
        if all_of_it:
            body = json.dumps(text, ensure_ascii=False)
            if seen.startswith("{"):  # a text that hides something stands below its name
                body = json.dumps({"command": text}, ensure_ascii=False)
            payload = json.dumps({"p": text}, ensure_ascii=False)
            assert unescaped(seen) == f"{body}  payload {payload}"


def test_the_texts_would_find_what_is_missing() -> None:
    """The way back from escapes is right, and the hidden part stands in what is looked for."""
    assert unescaped("a⟨U+202E⟩b⟨U+0441 \u0441⟩⟨3 × U+0060⟩") == "a\u202eb\u0441```"  # noqa: RUF001
    assert unescaped("a\n⟨7 × U+000A⟩\nb") == "a" + "\n" * 7 + "b"  # noqa: RUF001
    assert sum(PAYLOAD in text for text in TEXTS) > len(TEXTS) / 2


def _joined(segments: list[list[Any]]) -> str:
    return "".join(text for text, _ in segments)


def _boxes(made: list[Json]) -> list[str]:
    parts = [part for one in made if one["type"] == "rich_text" for part in one["elements"]]
    boxes = [part for part in parts if part["type"] == "rich_text_preformatted"]
    return [box["elements"][0]["text"] for box in boxes]


def _strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for one in value.values() for text in _strings(one)]
    if isinstance(value, list):
        return [text for one in value for text in _strings(one)]
    return [value] if isinstance(value, str) else []


def _printed(content: Any, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width, color_system=None, legacy_windows=False).print(Group(content))
    return out.getvalue()


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _read_back(rows: list[str], label: str, name: str) -> str:
    """Return the one member of a part that is printed as its lines, or as JSON."""
    below = _below(rows, label)
    if not below.startswith('"'):
        (found,) = json.loads(below).values()
        return str(found)
    head, lines = below.split("\n", 1)
    assert head == f'"{name}" has {lines.count(chr(10)) + 1} lines:'
    return unescaped(lines)


def _below(rows: list[str], label: str) -> str:
    """Return what stands beside a label and below it."""
    (at,) = [number for number, row in enumerate(rows) if row.startswith(f"{label} ")]
    taken = [rows[at][21:]]
    for row in rows[at + 1 :]:
        if not row.startswith(" " * 21):
            break
        taken.append(row[21:])
    return "\n".join(taken)
