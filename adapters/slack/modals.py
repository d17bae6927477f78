"""The modals: reasons, edits, answers, and everything that would run, page by page. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adapters.slack.card_blocks import Act, actions, found
from adapters.slack.payloads import Form
from adapters.slack.text_objects import (
    INPUT_UNITS,
    TITLE_UNITS,
    Budget,
    Json,
    button,
    context,
    exact,
    fitted,
    label,
    labelled,
    line,
    one_line,
    option,
    plain,
    quote,
    rich,
    row,
    section,
    units,
    words,
)
from gateway.errors import InvalidRequest
from gateway.models import Action, FieldKind
from gateway.ports import (
    HIDDEN,
    LIFETIME_WORDS,
    Card,
    Field,
    FullView,
    Remember,
    RememberOption,
    parse_json,
)

DENY, EDIT, CHECK, RESPOND = "deny", "edit", "check_edit", "respond"
ANSWER, ABORT, REMEMBER, READ = "answer", "abort", "remember", "read"
PAGE_UNITS = 6000
_MOST_OPTIONS = 100
_FEW_OPTIONS = 10
_LABEL_TEXT = 1900
_REASON, _NEXT, _TEXT = "reason", "next", "text"
_SCOPE, _SPAN, _LIFETIME, _AGAIN = "scope", "span", "lifetime", "again"
_SESSION, _EVERYWHERE, _ASK = "session", "everywhere", "ask"
_MOST_SCOPES = 10
REPLAN = "replan"


def modal(
    title: str, blocks: list[Json], *, form: Form | None = None, kind: str = READ, submit: str = ""
) -> Json:
    """Return a modal; one without `submit` has only a way out."""
    view: Json = {
        "type": "modal",
        "callback_id": kind,
        "title": plain(title, TITLE_UNITS),
        "close": plain("Cancel" if submit else "Close", TITLE_UNITS),
        "blocks": blocks,
    }
    if form is not None:
        view["private_metadata"] = form.written()
    if submit:
        view["submit"] = plain(submit, TITLE_UNITS)
    return view


def loading() -> Json:
    """Return what is shown until we know more; opening it must not wait for anything."""
    return modal("One moment", [section(plain("Looking it up…"))])


def told(title: str, text: str) -> Json:
    """Return a modal that says one thing."""
    return modal(title, [section(plain(text))])


def deny(card: Card, form: Form) -> Json:
    """Ask why, and whether the agent may come back with another plan."""
    ways = [
        option("Deny", Action.DENY, "The agent is told no, and why"),
        option("Deny, and ask for another plan", REPLAN, "The agent plans again with your words"),
    ]
    blocks = [
        _about(card),
        _entry(_REASON, "Reason, for the agent", _typed(), optional=True),
        _entry(_NEXT, "What then", _first("radio_buttons", ways)),
    ]
    if Action.DENY in card.remembers:
        again = [
            option("Ask again", _ASK),
            option("Deny exactly this for a day, in this session", _SESSION),
            option("Deny exactly this for a day, in all sessions", _EVERYWHERE),
        ]
        blocks.append(_entry(_AGAIN, "When the same is asked", _first("static_select", again)))
    return modal("Deny", blocks, form=form, kind=DENY, submit="Deny")


def abort(card: Card, form: Form) -> Json:
    """Ask why, and what must stop."""
    ways = [option("Stop this turn", "turn"), option("Stop the agent", "agent")]
    blocks = [
        _about(card),
        _entry(_REASON, "Reason, for the agent", _typed(), optional=True),
        _entry(_NEXT, "What stops", _first("radio_buttons", ways)),
    ]
    return modal("Deny and stop", blocks, form=form, kind=ABORT, submit="Deny and stop")


def remember(
    card: Card, form: Form, scopes: Sequence[RememberOption], reach: Mapping[str, str]
) -> Json:
    """Ask what an approval shall cover from now on, where, and until when.

    `reach` says for each scope how much of late it would have covered.
    """
    if not scopes:
        return told("Remember", "This is asked about each time: nothing of it can be remembered.")
    made = scopes[:_MOST_SCOPES]
    said: list[Json] = []
    for number, scope in enumerate(made, 1):
        lead = "\n" if said else ""
        said.append(words(f"{lead}{number}. {one_line(scope.words.text)}", bold=True))
        said.append(words(f"\n{reach.get(scope.id, '')}"))
    covers = [
        option(f"{number}. {one_line(scope.words.text)}", scope.id)
        for number, scope in enumerate(made, 1)
    ]
    spans = [
        option("In this session", _SESSION),
        option("Everywhere", _EVERYWHERE, "In all sessions of this agent"),
    ]
    ends = [option(f"{text[:1].upper()}{text[1:]}", name) for name, text in LIFETIME_WORDS.items()]
    blocks = [
        _about(card),
        rich("covers", [line(*said)]),
        _entry(_SCOPE, "Approve this, and from now on", _first("radio_buttons", covers)),
        _entry(_SPAN, "Where", _first("radio_buttons", spans)),
        _entry(_LIFETIME, "How long", _first("static_select", ends)),
    ]
    return modal("Remember", blocks, form=form, kind=REMEMBER, submit="Approve, remember")


def _first(kind: str, options: list[Json]) -> Json:
    """Return a choice whose first option, the narrowest, is chosen."""
    return {**_choice(kind, options), "initial_option": options[0]}


def edit(card: Card, form: Form) -> Json:
    """Show the arguments to be edited."""
    text = card.editable
    if text is None or units(text) > INPUT_UNITS:
        return told("Edit", "This is too long, or holds secrets: edit it in the inbox.")
    typed = {**_typed(), "initial_value": text}
    blocks = [_about(card), _entry(_TEXT, "Arguments, as JSON", typed)]
    return modal("Edit", blocks, form=form, kind=EDIT, submit="Show the changes")


def check_edit(changed: str, form: Form) -> Json:
    """Show an edit as a diff, to be confirmed. What was typed is kept, and cannot change here."""
    warning = "This is high risk. " if form.high else ""
    blocks = [
        section(plain(f"{warning}This is what you changed. It runs exactly so.")),
        rich("changes", [exact(changed)]),
    ]
    return modal("Approve changed", blocks, form=form, kind=CHECK, submit="Approve")


def respond(card: Card, form: Form) -> Json:
    """Ask for the result that the agent gets instead of running it."""
    field = _entry(_TEXT, "Result, given to the agent instead of running it", _typed())
    return modal("Respond instead", [_about(card), field], form=form, kind=RESPOND, submit="Send")


def answer(card: Card, form: Form) -> Json:
    """Show a question's fields."""
    if any(field.secret and field.required for field in card.fields):
        return told("Answer", "A secret is asked for: answer in the inbox.")
    if any(len(field.choices) > _MOST_OPTIONS for field in card.fields):
        return told("Answer", "There are too many choices for Slack: answer in the inbox.")
    asked = [
        _entry(f"{_TEXT}{number}", field.text.text, _asked(field), optional=not field.required)
        for number, field in enumerate(card.fields)
        if not field.secret
    ]
    return modal("Answer", [_about(card), *asked], form=form, kind=ANSWER, submit="Answer")


def page_fits(text: str) -> bool:
    """Whether a page of Details shows all of this."""
    return units(text) <= PAGE_UNITS


def details(card: Card, full: FullView, form: Form, *, refusal: str) -> Json:
    """Return one page of everything that would run; the last has the buttons, or says why not.

    A page that is not shown whole leaves nothing to approve.
    """
    pages = full.pages
    if not all(page_fits(one.text) for one in pages):
        refusal = refusal or "This cannot be approved here: Slack cannot show all of a page."
    page = form.page
    value = form.button.written()
    said = f"Page {page + 1} of {len(pages)} · {full.chars} characters · sha256 {full.digest}"
    blocks = [context(plain(one_line(card.title))), context(plain(said))]
    if page == 0:
        facts = [(fact.label, fitted(one_line(fact.text.text), 500)) for fact in card.facts]
        facts += [("Why", fitted(one_line(reason.text), 500)) for reason in card.reasons[:10]]
        parts = [labelled(facts)] if facts else []
        if card.says is not None:
            parts += [
                label("The agent's own words, unverified"),
                quote(fitted(card.says.text, 3000)),
            ]
        blocks.append(rich("about", parts or [label("No more is known")]))
        blocks += found(card, Budget(INPUT_UNITS))
    blocks.append(rich("page", [exact(pages[page].text)]))
    turns = []
    if page > 0:
        turns.append(button("◀ Back", Act.BACK, value))
    if page < len(pages) - 1:
        turns.append(button("Next ▶", Act.NEXT, value))
    if turns:
        blocks.append(row("turns", *turns))
    if card.outcome is not None:
        blocks.append(context(plain(one_line(card.outcome.text))))
    elif page == len(pages) - 1:
        if card.hides:
            blocks.append(context(plain(f"⚠️ {HIDDEN}")))
        decisions = actions(card, form.copy, _FROM_DETAILS)
        blocks.append(section(plain(refusal)) if refusal else decisions)
    return modal("Details", blocks, form=form)


_FROM_DETAILS = {Act.APPROVE, Act.APPROVE_SURE, Act.DENY, Act.ANSWER}


def _about(card: Card) -> Json:
    return context(plain(one_line(card.title), 200), plain(card.short_id))


def _entry(name: str, text: str, element: Json, *, optional: bool = False) -> Json:
    return {
        "type": "input",
        "block_id": name,
        "label": plain(text, _LABEL_TEXT),
        "element": element,
        "optional": optional,
    }


def _typed() -> Json:
    return {
        "type": "plain_text_input",
        "action_id": _TEXT,
        "multiline": True,
        "max_length": INPUT_UNITS,
    }


def _asked(field: Field) -> Json:
    if field.kind is FieldKind.NUMBER:
        return {"type": "number_input", "action_id": _TEXT, "is_decimal_allowed": True}
    if field.kind is FieldKind.BOOLEAN:
        return _choice("radio_buttons", [option("Yes", "yes"), option("No", "no")])
    # Values may be longer than Slack takes, so the choice's number stands for it.
    options = [
        option(one_line(choice.label.text), str(number))
        for number, choice in enumerate(field.choices)
    ]
    if field.kind is FieldKind.CHOICE:
        few = len(options) <= _FEW_OPTIONS
        return _choice("radio_buttons" if few else "static_select", options)
    if field.kind is FieldKind.CHOICES:
        few = len(options) <= _FEW_OPTIONS
        return _choice("checkboxes" if few else "multi_static_select", options)
    return _typed()


def _choice(kind: str, options: list[Json]) -> Json:
    return {"type": kind, "action_id": _TEXT, "options": options}


# What people typed


class Typed:
    """The values of a submitted modal, as Slack sends them."""

    def __init__(self, view: Json) -> None:
        self._values: Json = view.get("state", {}).get("values", {})

    def _of(self, name: str) -> Json:
        (entered,) = (self._values.get(name) or {"": {}}).values()
        found: Json = entered or {}
        return found

    def text(self, name: str = _TEXT) -> str:
        """Return what was typed into a field, empty for nothing."""
        return str(self._of(name).get("value") or "")

    @property
    def reason(self) -> str:
        """The reason given."""
        return self.text(_REASON).strip()

    def chosen(self, name: str = _NEXT) -> str | None:
        """Return the value of the chosen option."""
        option = self._of(name).get("selected_option") or {}
        value: str | None = option.get("value")
        return value

    def all_chosen(self, name: str) -> list[str]:
        """Return the values of the chosen options."""
        return [one["value"] for one in self._of(name).get("selected_options") or []]

    def remembered(self) -> Remember:
        """Return what is to be remembered."""
        return Remember(
            offer=self.chosen(_SCOPE) or "",
            everywhere=self.chosen(_SPAN) == _EVERYWHERE,
            lifetime=self.chosen(_LIFETIME) or "1h",
        )

    def remembered_denial(self) -> Remember | None:
        """Return how a denial is to be remembered, None when it is to be asked about again."""
        again = self.chosen(_AGAIN)
        if again not in (_SESSION, _EVERYWHERE):
            return None
        return Remember(everywhere=again == _EVERYWHERE, lifetime="1d")

    def answers(self, fields: tuple[Field, ...]) -> Json:
        """Return the answers to a question; what was left empty is left out."""
        found = {
            field.id: self._answer(f"{_TEXT}{number}", field)
            for number, field in enumerate(fields)
            if not field.secret
        }
        return {name: value for name, value in found.items() if value is not None}

    def _answer(self, name: str, field: Field) -> Any:
        if field.kind is FieldKind.CHOICES:
            picked = [field.choices[int(one)].value for one in self.all_chosen(name)]
            return picked or None
        chosen = self.chosen(name)
        if field.kind is FieldKind.BOOLEAN:
            return None if chosen is None else chosen == "yes"
        if field.kind is FieldKind.CHOICE:
            return None if chosen is None else field.choices[int(chosen)].value
        text = self.text(name)
        if field.kind is FieldKind.NUMBER and text:
            return _number(text)
        return text or None


def _number(text: str) -> int | float:
    value = parse_json(text.encode())
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRequest(f"{text[:40]!r} is not a number")
    return value


def arguments_of(text: str) -> Json:
    """Return edited arguments; raises InvalidRequest for anything but one strict JSON object."""
    value = parse_json(text.encode("utf-8", "surrogatepass"))
    if not isinstance(value, dict):
        raise InvalidRequest("arguments are one JSON object, in braces")
    return value
