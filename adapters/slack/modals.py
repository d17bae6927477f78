"""The modals: reasons, edits, answers, what to remember, and the full view. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from adapters.slack.card_blocks import (
    INPUT_UNITS,
    TITLE_UNITS,
    TextBudget,
    build_actions,
    button,
    context,
    count_units,
    exact,
    fit,
    label,
    label_pairs,
    line,
    link,
    one_line,
    option,
    plain,
    quote,
    render_because,
    render_findings,
    render_head,
    rich,
    row,
    section,
    words,
)
from adapters.slack.payloads import Act, Json, ModalMetadata
from gateway.errors import InvalidRequest
from gateway.models import Action, FieldKind
from gateway.ports import (
    ANOTHER_PLAN,
    DENIALS,
    HIDDEN,
    LIFETIME_WORDS,
    Card,
    Field,
    FullView,
    Remember,
    RememberOption,
    join_reason,
    parse_json,
    remember_as,
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


def build_modal(
    title: str,
    blocks: list[Json],
    *,
    form: ModalMetadata | None = None,
    kind: str = READ,
    submit: str = "",
) -> Json:
    """Return a modal; without `submit` it can only be closed."""
    view: Json = {
        "type": "modal",
        "callback_id": kind,
        "title": plain(title, TITLE_UNITS),
        "close": plain("Cancel" if submit else "Close", TITLE_UNITS),
        "blocks": blocks,
    }
    if form is not None:
        view["private_metadata"] = form.encode()
    if submit:
        view["submit"] = plain(submit, TITLE_UNITS)
    return view


def build_loading() -> Json:
    """Return the placeholder, which opens without waiting for any data."""
    return build_modal("One moment", [section(plain("Looking it up…"))])


def build_notice(title: str, text: str, inbox: str = "") -> Json:
    """Return a modal with a text, and a button to the `inbox` where it has an address."""
    leads = [row("inbox", link("Open in the inbox", Act.OPEN, inbox))] if inbox else []
    return build_modal(title, [section(plain(text)), *leads])


def build_deny(card: Card, form: ModalMetadata) -> Json:
    """Return the modal of a denial: the reason, and whether the agent shall plan again."""
    ways = [
        option("Deny", Action.DENY, "The agent is told no, and why"),
        *(option(f"Deny: {why.lower()}", f"{Action.DENY} {why}") for why in DENIALS),
        option(ANOTHER_PLAN, REPLAN, "The agent plans again with your words"),
    ]
    blocks = [
        _build_summary(card),
        _build_input(_REASON, "Reason, for the agent", _build_text_input(), optional=True),
        _build_input(_NEXT, "What then", _build_choice_with_default("radio_buttons", ways)),
    ]
    if Action.DENY in card.remembers:
        again = [
            option("Ask again", _ASK),
            option("Deny exactly this for a day, in this session", _SESSION),
            option("Deny exactly this for a day, in all sessions", _EVERYWHERE),
        ]
        blocks.append(
            _build_input(
                _AGAIN, "When the same is asked", _build_choice_with_default("static_select", again)
            )
        )
    return build_modal("Deny", blocks, form=form, kind=DENY, submit="Deny")


def build_abort(card: Card, form: ModalMetadata) -> Json:
    """Return the modal of deny and stop: the reason, and what stops."""
    ways = [option("Stop this turn", "turn"), option("Stop the agent", "agent")]
    blocks = [
        _build_summary(card),
        _build_input(_REASON, "Reason, for the agent", _build_text_input(), optional=True),
        _build_input(_NEXT, "What stops", _build_choice_with_default("radio_buttons", ways)),
    ]
    return build_modal("Deny and stop", blocks, form=form, kind=ABORT, submit="Deny and stop")


def build_remember(
    card: Card, form: ModalMetadata, scopes: Sequence[RememberOption], reach: Mapping[str, str]
) -> Json:
    """Return the modal that asks for scope, place and lifetime of a grant.

    `reach` describes for each scope what it would have covered recently.
    """
    if not scopes:
        return build_notice(
            "Remember", "This is asked about each time: nothing of it can be remembered."
        )
    passes = [one for one in scopes if one.session_pass]
    others = [one for one in scopes if not one.session_pass]
    made = [*others[: _MOST_SCOPES - len(passes)], *passes]
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
        _build_summary(card),
        rich("covers", [line(*said)]),
        _build_input(
            _SCOPE,
            "Approve this, and from now on",
            _build_choice_with_default("radio_buttons", covers),
        ),
        _build_input(_SPAN, "Where", _build_choice_with_default("radio_buttons", spans)),
        _build_input(_LIFETIME, "How long", _build_choice_with_default("static_select", ends)),
    ]
    return build_modal("Remember", blocks, form=form, kind=REMEMBER, submit="Approve, remember")


def _build_choice_with_default(kind: str, options: list[Json]) -> Json:
    """Return a choice with its first option, the narrowest, as the default."""
    return {**_build_choice(kind, options), "initial_option": options[0]}


def build_edit(card: Card, form: ModalMetadata) -> Json:
    """Return the modal to edit the arguments."""
    text = card.editable
    if text is None or count_units(text) > INPUT_UNITS:
        why = "This is too long, or holds secrets: edit it in the inbox."
        return build_notice("Edit", why, card.inbox)
    typed = {**_build_text_input(), "initial_value": text}
    blocks = [_build_summary(card), _build_input(_TEXT, "Arguments, as JSON", typed)]
    return build_modal("Edit", blocks, form=form, kind=EDIT, submit="Show the changes")


def build_edit_check(changed: str, form: ModalMetadata) -> Json:
    """Return the modal that shows an edit as a diff, to be confirmed."""
    warning = "This is high risk. " if form.high else ""
    blocks = [
        section(plain(f"{warning}This is what you changed. It runs exactly so.")),
        rich("changes", [exact(changed)]),
    ]
    return build_modal("Approve changed", blocks, form=form, kind=CHECK, submit="Approve")


def build_respond(card: Card, form: ModalMetadata) -> Json:
    """Return the modal that asks for the result the agent gets instead."""
    field = _build_input(
        _TEXT, "Result, given to the agent instead of running it", _build_text_input()
    )
    return build_modal(
        "Respond instead", [_build_summary(card), field], form=form, kind=RESPOND, submit="Send"
    )


def build_answer(card: Card, form: ModalMetadata) -> Json:
    """Return the modal with a question's fields."""
    if any(field.secret and field.required for field in card.fields):
        why = "A secret is asked for: answer in the inbox."
        return build_notice("Answer", why, card.inbox)
    if any(len(field.choices) > _MOST_OPTIONS for field in card.fields):
        why = "There are too many choices for Slack: answer in the inbox."
        return build_notice("Answer", why, card.inbox)
    asked = [
        _build_input(
            f"{_TEXT}{number}",
            field.text.text,
            _build_field_input(field),
            optional=not field.required,
        )
        for number, field in enumerate(card.fields)
        if not field.secret
    ]
    return build_modal(
        "Answer", [_build_summary(card), *asked], form=form, kind=ANSWER, submit="Answer"
    )


def page_fits(text: str) -> bool:
    """Whether this fits a page of the full view."""
    return count_units(text) <= PAGE_UNITS


def build_details(card: Card, full: FullView, form: ModalMetadata, *, refusal: str) -> Json:
    """Return one page of the full view. The last has the buttons, or says why there are none.

    If a page is not shown whole, the request cannot be approved.
    """
    pages = full.pages
    if not all(page_fits(one.text) for one in pages):
        refusal = refusal or "This cannot be approved here: Slack cannot show all of a page."
    page = form.page
    value = form.button.encode()
    said = f"Page {page + 1} of {len(pages)} · {full.chars} characters · sha256 {full.digest}"
    blocks = [render_head(card, TextBudget(INPUT_UNITS)), context(plain(said))]
    if page == 0:
        blocks += _render_first(card, full)
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
        if card.progress:
            blocks.append(context(plain(one_line(card.progress))))
        decisions = build_actions(card, form.copy, _FROM_DETAILS)
        blocks.append(section(plain(refusal)) if refusal else decisions)
    return build_modal("Details", blocks, form=form)


def _render_first(card: Card, full: FullView) -> Iterator[Json]:
    """Return what stands above the first page: who asks, why, what was found, what is not known."""
    facts = [(fact.label, fit(one_line(fact.text.text), 500)) for fact in card.facts]
    facts += [("Why", fit(one_line(reason.text), 500)) for reason in card.reasons[:10]]
    parts = [label_pairs(facts)] if facts else []
    if card.says is not None:
        parts += [label("The agent's own words, unverified"), quote(fit(card.says.text, 3000))]
    yield rich("about", parts or [label("No more is known")])
    if card.changed_by is not None:
        yield context(plain(one_line(card.changed_by.text)))
    yield from render_because(card, TextBudget(INPUT_UNITS))
    yield from render_findings(card, TextBudget(INPUT_UNITS))
    if full.undeclared is not None:
        yield context(plain(one_line(full.undeclared.text), INPUT_UNITS))


_FROM_DETAILS = {Act.APPROVE, Act.APPROVE_SURE, Act.DENY, Act.ANSWER, Act.OPEN}


def _build_summary(card: Card) -> Json:
    """Return what this is about: the head of the card."""
    return render_head(card, TextBudget(INPUT_UNITS))


def _build_input(name: str, text: str, element: Json, *, optional: bool = False) -> Json:
    return {
        "type": "input",
        "block_id": name,
        "label": plain(text, _LABEL_TEXT),
        "element": element,
        "optional": optional,
    }


def _build_text_input() -> Json:
    return {
        "type": "plain_text_input",
        "action_id": _TEXT,
        "multiline": True,
        "max_length": INPUT_UNITS,
    }


def _build_field_input(field: Field) -> Json:
    if field.kind is FieldKind.NUMBER:
        return {"type": "number_input", "action_id": _TEXT, "is_decimal_allowed": True}
    if field.kind is FieldKind.BOOLEAN:
        return _build_choice("radio_buttons", [option("Yes", "yes"), option("No", "no")])
    # The index instead of the value, which may be too long for Slack.
    options = [
        option(one_line(choice.label.text), str(number))
        for number, choice in enumerate(field.choices)
    ]
    if field.kind is FieldKind.CHOICE:
        few = len(options) <= _FEW_OPTIONS
        return _build_choice("radio_buttons" if few else "static_select", options)
    if field.kind is FieldKind.CHOICES:
        few = len(options) <= _FEW_OPTIONS
        return _build_choice("checkboxes" if few else "multi_static_select", options)
    return _build_text_input()


def _build_choice(kind: str, options: list[Json]) -> Json:
    return {"type": kind, "action_id": _TEXT, "options": options}


# --- what was submitted ---------------------------------------------------------------------------


class SubmittedValues:
    """The values of a submitted modal."""

    def __init__(self, view: Json) -> None:
        self._values: Json = view.get("state", {}).get("values", {})

    def _read_entry(self, name: str) -> Json:
        (entered,) = (self._values.get(name) or {"": {}}).values()
        found: Json = entered or {}
        return found

    def read_text(self, name: str = _TEXT) -> str:
        """Return the text of a field, empty for none."""
        return str(self._read_entry(name).get("value") or "")

    @property
    def reason(self) -> str:
        """The reason: what was tapped, then what was typed."""
        _, _, tapped = (self.read_choice() or "").partition(" ")
        return join_reason(tapped, self.read_text(_REASON).strip())

    def read_choice(self, name: str = _NEXT) -> str | None:
        """Return the value of the chosen option."""
        option = self._read_entry(name).get("selected_option") or {}
        value: str | None = option.get("value")
        return value

    def read_choices(self, name: str) -> list[str]:
        """Return the values of the chosen options."""
        return [one["value"] for one in self._read_entry(name).get("selected_options") or []]

    def read_remember(self) -> Remember:
        """Return what to remember."""
        return remember_as(
            self.read_choice(_SCOPE) or "",
            self.read_choice(_LIFETIME) or "1h",
            everywhere=self.read_choice(_SPAN) == _EVERYWHERE,
        )

    def read_denial_remember(self) -> Remember | None:
        """Return how to remember a denial, None when not."""
        again = self.read_choice(_AGAIN)
        if again not in (_SESSION, _EVERYWHERE):
            return None
        return Remember(everywhere=again == _EVERYWHERE, lifetime="1d")

    def read_answers(self, fields: tuple[Field, ...]) -> Json:
        """Return the answers to a question, without empty ones."""
        found = {
            field.id: self._read_answer(f"{_TEXT}{number}", field)
            for number, field in enumerate(fields)
            if not field.secret
        }
        return {name: value for name, value in found.items() if value is not None}

    def _read_answer(self, name: str, field: Field) -> Any:
        if field.kind is FieldKind.CHOICES:
            picked = [field.choices[int(one)].value for one in self.read_choices(name)]
            return picked or None
        chosen = self.read_choice(name)
        if field.kind is FieldKind.BOOLEAN:
            return None if chosen is None else chosen == "yes"
        if field.kind is FieldKind.CHOICE:
            return None if chosen is None else field.choices[int(chosen)].value
        text = self.read_text(name)
        if field.kind is FieldKind.NUMBER and text:
            return _parse_number(text)
        return text or None


def _parse_number(text: str) -> int | float:
    value = parse_json(text.encode())
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRequest("the answer is not a number")
    return value


def read_arguments(text: str) -> Json:
    """Return edited arguments; raises InvalidRequest for anything but one strict JSON object."""
    value = parse_json(text.encode("utf-8", "surrogatepass"))
    if not isinstance(value, dict):
        raise InvalidRequest("arguments are one JSON object, in braces")
    return value
