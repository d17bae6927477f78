"""Build Slack's modals and read what people submit; each `build_` function returns one modal.

The modals are denials, edits, forms, grants, batches and the full view.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from adapters.slack.cards import (
    FORMS,
    INPUT_UNITS,
    LABEL_UNITS,
    TITLE_UNITS,
    TextBudget,
    build_actions,
    button,
    context,
    day,
    exact,
    is_offered,
    label,
    label_pairs,
    line,
    lines,
    link,
    one_line,
    option,
    plain,
    quote,
    render_above,
    render_all_found,
    render_because,
    render_blocks,
    render_diff,
    render_findings,
    render_notices,
    render_risk,
    render_summary,
    rich,
    row,
    section,
    words,
)
from adapters.slack.payloads import BATCH_VIEW, NO_COPY, Act, Json, ModalMetadata
from gateway.cards.batch_cards import BatchCard, named_facts
from gateway.cards.card import (
    Card,
    Control,
    Field,
    FullView,
    choose_above,
    list_warnings,
    say_no_link,
)
from gateway.cards.forms import UNCHANGED, EditField, EditKind, edit_as_text, edit_fields
from gateway.cards.masks import HIDDEN
from gateway.cards.remember_options import LIFETIME_WORDS, RememberOption, remember_as
from gateway.cards.shared_texts import (
    ANOTHER_PLAN,
    BECAUSE,
    DENIALS,
    NO_LINK,
    NUMBER_LABEL,
    NUMBER_OPTIONAL,
    SECRET_ASKED,
    clip,
    count_units,
)
from gateway.cards.summary import plain_summary
from gateway.chat.answering import (
    ABOUT_CHARS,
    KEPT_NOTE,
    NO,
    REASON,
    YES,
    YES_NO,
    Typed,
    name_left_out,
    read_denial,
    warn_of_tries,
)
from gateway.chat.lists_and_batches import NOT_TOGETHER
from gateway.chat.remembering import (
    AGAIN,
    AGAIN_LABEL,
    EVERYWHERE,
    NOTHING_TO_REMEMBER,
    SESSION,
)
from gateway.models import Action, FieldKind
from gateway.ports import JsonObject, Remember, StoredRequest

DENY, EDIT, EDIT_FIELDS, CHECK = "deny", "edit", "edit_fields", "check_edit"
RESPOND = "respond"
ANSWER, ABORT, REMEMBER, READ = "answer", "abort", "remember", "read"
NUMBER = "number"
ADD_PLACE, ROUTE = "add_place", "route"
PAGE_UNITS = 6000
_MOST_OPTIONS = 100
FEW_OPTIONS = 10
_LABEL_TEXT = 1900
_NOTE, _NEXT, TEXT = "note", "next", "text"
_SCOPE, _SPAN, _LIFETIME, _AGAIN = "scope", "span", "lifetime", "again"
MOST_SCOPES = 10
_EXACTLY = "exactly this"
_VALUE_UNITS = 150  # of an option
_PART_UNITS = 40  # of a scope, in a label that is too short for all of it
REPLAN = "replan"
_MORE = (
    (Act.DETAILS, "Details", "Show the complete call, all facts, the ids and the digest"),
    (Act.EDIT, "Edit…", "Change the arguments, then approve"),
    (Act.RESPOND, "Respond instead…", "Send your text to the agent instead of running the call"),
    (Act.REMEMBER, "Remember…", "Approve this, and similar requests from now on"),
    (Act.ABORT, "Deny and stop…", "Deny this, and stop the turn or the agent"),
)
_CLAIMS = {
    False: (Act.CLAIM, "I'm looking at it", "Show others that you are looking"),
    True: (Act.UNCLAIM, "No longer looking", "Remove the note that you are looking"),
}


def build_modal(
    title: str,
    blocks: list[Json],
    *,
    form: ModalMetadata | None = None,
    kind: str = READ,
    submit: str = "",
) -> Json:
    """Build a modal. `submit` labels its submit button; without it, the modal has only Close."""
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
    """Build the placeholder modal, which needs no data and so opens at once."""
    return build_modal("One moment", [section(plain("Looking it up…"))])


def build_notice(title: str, text: str) -> Json:
    """Build a modal with one text."""
    return build_modal(title, [section(plain(text))])


def build_referral(title: str, text: str, inbox: str) -> Json:
    """Build a modal that sends people to the inbox: with a button, or without an address with
    how to get a link."""
    way = row("inbox", link("Open in the inbox", Act.OPEN, inbox)) if inbox else lines((NO_LINK,))
    return build_modal(title, [section(plain(text)), way])


def build_more(
    card: Card, form: ModalMetadata, *, refusal: str, mine: bool, batch: int = 1
) -> Json:
    """Build the modal behind "More…", with one line for each other action.

    A `refusal` says why the person may not decide; then only the read actions remain. `mine` is
    true if the person is looking; `batch` is the number of requests in the batch.
    """
    value = form.button.encode()
    offered = {FORMS[one.action] for one in card.controls if is_offered(card, one)}
    if Action.APPROVE in card.remembers:
        offered.add(Act.REMEMBER)
    rows = [_MORE[0], *(one for one in _MORE if not refusal and one[0] in offered)]
    if not refusal:
        rows.append(_CLAIMS[mine])
    if batch > 1:
        said = "All requests of this batch in one view"
        rows.insert(1, (Act.BATCH, f"All {batch}…", said))
    blocks = [render_modal_summary(card)]
    for act, text, said in rows:
        line_of = section(plain(said))
        blocks.append({**line_of, "accessory": button(text, act, value)})
    if card.inbox:
        blocks.append(row("inbox", link("Open in the inbox", Act.OPEN, card.inbox)))
    if told := [one for one in (say_no_link(card), refusal) if one]:
        blocks.append(lines(told))
    return build_modal("More", blocks, form=form)


def build_deny(card: Card, form: ModalMetadata) -> Json:
    """Build the modal of a denial: one-tap reasons, text fields, and whether the agent makes a new
    plan."""
    ways = [
        option("Deny", Action.DENY, "The agent gets your reason"),
        option(ANOTHER_PLAN, REPLAN, "The agent makes a new plan from your reason"),
    ]
    value = form.button.encode()
    chips = [
        button(why, f"{Act.DENY_BECAUSE}{number}", value) for number, why in enumerate(DENIALS)
    ]
    blocks = [
        *_build_summary(card),
        context(plain(f"{BECAUSE} …")),
        row("because", *chips),
        *_build_words(),
        build_input(
            _NEXT, "What the agent does next", _build_choice_with_default("radio_buttons", ways)
        ),
    ]
    if Action.DENY in card.remembers:
        again = [option(said, value) for value, said in AGAIN.items()]
        menu = _build_choice_with_default("static_select", again)
        blocks.append(build_input(_AGAIN, AGAIN_LABEL, menu))
    return build_modal("Deny", blocks, form=form, kind=DENY, submit="Deny")


def _build_words() -> list[Json]:
    """Build the fields for a denial's reason and note."""
    reason, note = "Reason, for the agent", "Note for the record, never for the agent"
    return [
        build_input(name, text, build_text_input(), optional=True)
        for name, text in ((REASON, reason), (_NOTE, note))
    ]


def build_abort(card: Card, form: ModalMetadata) -> Json:
    """Build the modal of deny and stop: the reason, and a choice of the turn or the agent."""
    ways = [option("Stop this turn", "turn"), option("Stop the agent", "agent")]
    blocks = [
        *_build_summary(card),
        *_build_words(),
        build_input(_NEXT, "What to stop", _build_choice_with_default("radio_buttons", ways)),
    ]
    return build_modal("Deny and stop", blocks, form=form, kind=ABORT, submit="Deny and stop")


def build_remember(
    card: Card,
    form: ModalMetadata,
    scopes: Sequence[RememberOption],
    reach: Mapping[str, str],
    usual: str = "",
) -> Json:
    """Build the modal that asks for scope, place and lifetime of a grant.

    `reach` describes the matches in history of each scope, by its id. `usual` is the id of the
    preselected scope.
    """
    if not scopes:
        return build_notice("Remember", NOTHING_TO_REMEMBER)
    said: list[Json] = []
    for number, scope in enumerate(scopes, 1):
        lead = "\n" if said else ""
        said.append(words(f"{lead}{number}. {one_line(scope.words.text)}", bold=True))
        if told := reach.get(scope.id):
            said.append(words(f"\n{told}"))
    covers = [option(_say_short(number, scope), scope.id) for number, scope in enumerate(scopes, 1)]
    spans = [
        option("In this session", SESSION),
        option("In all sessions of this agent", EVERYWHERE),
    ]
    ends = [option(f"{text[:1].upper()}{text[1:]}", name) for name, text in LIFETIME_WORDS.items()]
    blocks = [
        *_build_summary(card),
        rich("covers", [line(*said)]),
        build_input(
            _SCOPE,
            "Approve this and later requests like it",
            _build_choice_with_default("radio_buttons", covers, usual),
        ),
        build_input(_SPAN, "Where", _build_choice_with_default("radio_buttons", spans)),
        build_input(_LIFETIME, "How long", _build_choice_with_default("static_select", ends)),
    ]
    return build_modal("Remember", blocks, form=form, kind=REMEMBER, submit="Approve, remember")


def _say_short(number: int, scope: RememberOption) -> str:
    """Return a scope's label: its name, or as many of its parts as fit. The modal shows the full
    text above, under the same number."""
    text = one_line(scope.words.text)
    named, _, _ = text.partition(": ")
    if scope.session_pass or named == _EXACTLY:
        return f"{number}. {named}"
    if count_units(whole := f"{number}. {text}") <= LABEL_UNITS:
        return whole
    rest = f" (full text under {number} above)"
    while ", " in text and count_units(text) > _PART_UNITS:
        text = text.rpartition(", ")[0]
    return f"{number}. {clip(text, _PART_UNITS)}{rest}"


def _build_choice_with_default(kind: str, options: list[Json], usual: str = "") -> Json:
    """Build a choice that preselects the `usual` option, or else the first, narrowest one."""
    first = next((one for one in options if one["value"] == usual), options[0])
    return {**build_choice(kind, options), "initial_option": first}


def build_edit_check(changed: str, form: ModalMetadata) -> Json:
    """Build the modal that shows an edit as a diff and asks for confirmation."""
    warning = "This is high risk. " if form.high else ""
    blocks = [
        section(plain(f"{warning}Your changes. The call runs exactly like this.")),
        rich("changes", [exact(changed)]),
        row("again", button("Edit again", Act.EDIT_AGAIN, form.button.encode())),
    ]
    return build_modal("Approve with changes", blocks, form=form, kind=CHECK, submit="Approve")


def build_number(card: Card, form: ModalMetadata, control: Control, guesses: int) -> Json:
    """Build the modal that asks for the verification code; `guesses` counts wrong codes so far."""
    typed = {"type": "plain_text_input", "action_id": TEXT, "max_length": 3}
    field = build_input(TEXT, NUMBER_LABEL, typed, optional=control.optional)
    if control.optional:
        field["hint"] = plain(NUMBER_OPTIONAL)
    asked = [*_build_summary(card), lines((control.question, warn_of_tries(guesses))), field]
    return build_modal("Approve", asked, form=form, kind=NUMBER, submit=control.yes)


def build_route_choice(words: str, channel: str, routes: Sequence[str]) -> Json:
    """Build the modal in which an admin chooses a route that also posts to this channel."""
    named = [one for one in routes if count_units(one) <= _VALUE_UNITS][:_MOST_OPTIONS]
    menu = build_choice("static_select", [option(one, one) for one in named])
    said = f"Choose a route. It will also post its requests to {words}."
    blocks = [section(plain(said)), build_input(ROUTE, "Route", menu)]
    view = build_modal("Send requests here", blocks, kind=ADD_PLACE, submit="Send them here")
    return {**view, "private_metadata": channel}


def build_respond(card: Card, form: ModalMetadata) -> Json:
    """Build the modal that asks for a result. The agent gets it instead of running the call."""
    field = build_input(TEXT, "Result that the agent gets; the call is not run", build_text_input())
    return build_modal(
        "Respond instead", [*_build_summary(card), field], form=form, kind=RESPOND, submit="Send"
    )


def build_answer(card: Card, form: ModalMetadata) -> Json:
    """Build the modal of a form, or a referral to the inbox if Slack cannot show its fields."""
    if any(field.secret and field.required for field in card.fields):
        return build_referral("Answer", SECRET_ASKED, card.inbox)
    if any(len(field.choices) > _MOST_OPTIONS for field in card.fields):
        why = "There are too many choices for Slack. Answer in the inbox."
        return build_referral("Answer", why, card.inbox)
    asked = [
        build_input(
            f"{TEXT}{number}",
            field.text.text,
            _build_field_input(field),
            optional=not field.required,
        )
        for number, field in enumerate(card.fields)
        if not field.secret
    ]
    first = card.fields[0]  # the summary repeats it, unless it had no room
    said_twice = not first.secret and first not in card.unsaid
    leads = [] if said_twice else [render_modal_summary(card)]
    return build_modal("Answer", [*leads, *asked], form=form, kind=ANSWER, submit="Answer")


def page_fits(text: str) -> bool:
    """Whether one page of the full view has room for this text."""
    return count_units(text) <= PAGE_UNITS


def build_details(card: Card, full: FullView, form: ModalMetadata, *, refusal: str) -> Json:
    """Build one page of the full view. The last page has the buttons, or says why not.

    If Slack cannot show every page in full, the buttons are left out.
    """
    pages = full.pages
    if not all(page_fits(one.text) for one in pages):
        way = "" if card.inbox else f" {NO_LINK}"
        unread = f"You cannot approve this here: Slack cannot show a page in full.{way}"
        refusal = refusal or unread
    page = form.page
    value = form.button.encode()
    last = page >= len(pages) - 1  # a form may have no pages
    said = [f"Page {page + 1} of {len(pages)} · {full.chars} characters"] if pages else []
    said.append(f"id {card.request_id} · sha256 {full.digest}")
    blocks = [render_summary(card, TextBudget(INPUT_UNITS))]
    blocks += _render_end(card) if card.outcome is not None else ()
    blocks.append(lines(said))
    if page == 0:
        blocks += _render_first(card, full)
    if pages:
        blocks.append(rich("page", [exact(pages[page].text)]))
    turns = []
    if page > 0:
        turns.append(button("◀ Back", Act.BACK, value))
    if not last:
        turns.append(button("Next ▶", Act.NEXT, value))
    if turns:
        blocks.append(row("turns", *turns))
    if card.outcome is None and last:
        blocks += _render_last(card, form, refusal)
    return build_modal("Details", blocks, form=form)


def _render_last(card: Card, form: ModalMetadata, refusal: str) -> Iterator[Json]:
    """Yield the blocks below the last page: the buttons, or the refusal."""
    if card.hides and form.page > 0:  # the first page already says it
        yield context(plain(f"⚠️ {HIDDEN}"))
    if card.progress:
        yield context(plain(one_line(card.progress)))
    if not refusal:
        yield build_actions(card, form.copy, whole=True)
        return
    yield section(plain(refusal))
    if card.inbox:
        yield row("inbox", link("Open in the inbox", Act.OPEN, card.inbox))


def _render_end(card: Card) -> Iterator[Json]:
    """Yield lines with the outcome, the approvals, the result and the note; then the changes."""
    ended = card.ending or card.outcome
    said = [one_line(one.text) for one in (ended, card.result) if one is not None]
    if card.progress:
        said.append(one_line(card.progress))
    if card.note is not None:
        said.append(f"Note for the record: “{one_line(card.note.text)}”")
    first = [words(f"{card.icon} {said[0]}", bold=True)]
    if card.decided_at is not None:
        first += [words(", "), day(card.decided_at)]
    yield rich("ended", [line(*first)])
    if said[1:]:
        yield lines(said[1:])
    if card.changed_by is not None and card.changed:
        changed = exact(clip(render_diff(card), PAGE_UNITS))
        told = card.changed_aside  # if None, the line above names the person
        who = one_line(told.text) if told is not None else "Changes"
        yield rich("changed", [label(who), changed])


def _render_first(card: Card, full: FullView) -> Iterator[Json]:
    """Yield the blocks above the first page: facts, the agent's statement, risk, findings,
    warnings, and undeclared arguments."""
    facts = [(fact.label, clip(one_line(fact.text.text), 500)) for fact in card.facts]
    parts = [quote(clip(field.text.text, 500)) for field in card.unsaid]
    parts += [label_pairs(facts)] if facts else []
    if card.says is not None:
        said = quote(clip(card.says.text, 3000))
        parts += [label(f"The agent's own words, {card.unverified}"), said]
    yield rich("about", parts or [label("No more facts")])
    if card.changed_by is not None and not card.final:
        yield context(plain(one_line(card.changed_by.text)))
    yield from render_all_found(card, TextBudget(INPUT_UNITS))
    yield from render_because(card, TextBudget(INPUT_UNITS))
    yield from render_notices(list_warnings(card))
    if full.undeclared is not None:
        yield context(plain(one_line(full.undeclared.text), INPUT_UNITS))


def render_modal_summary(card: Card) -> Json:
    """Return a card's summary, for the top of a modal."""
    return render_summary(card, TextBudget(INPUT_UNITS))


def _build_summary(card: Card) -> list[Json]:
    """Build the top of a modal: the summary, risk and findings, and the call as far as it fits."""
    made = [render_modal_summary(card), *render_all_found(card, TextBudget(ABOUT_CHARS))]
    if parts := render_blocks(card):
        made.append(rich("about", parts))
    if not card.complete:
        made.append(
            context(plain(f"This call is cut here: {card.size}. Details shows the whole call."))
        )
    return made


def build_input(name: str, text: str, element: Json, *, optional: bool = False) -> Json:
    """Build a labelled input block; `name` is its block id."""
    return {
        "type": "input",
        "block_id": name,
        "label": plain(text, _LABEL_TEXT),
        "element": element,
        "optional": optional,
    }


def build_text_input() -> Json:
    """Build an input element for several lines of text."""
    return {
        "type": "plain_text_input",
        "action_id": TEXT,
        "multiline": True,
        "max_length": INPUT_UNITS,
    }


def _build_field_input(field: Field) -> Json:
    if field.kind is FieldKind.NUMBER:
        return {"type": "number_input", "action_id": TEXT, "is_decimal_allowed": True}
    if field.kind is FieldKind.BOOLEAN:
        return build_choice("radio_buttons", [option("Yes", YES), option("No", NO)])
    # The index instead of the value, which may be too long for Slack.
    options = [
        option(one_line(choice.label.text), str(number))
        for number, choice in enumerate(field.choices)
    ]
    if field.kind is FieldKind.CHOICE:
        few = len(options) <= FEW_OPTIONS
        return build_choice("radio_buttons" if few else "static_select", options)
    if field.kind is FieldKind.CHOICES:
        few = len(options) <= FEW_OPTIONS
        return build_choice("checkboxes" if few else "multi_static_select", options)
    return build_text_input()


def build_choice(kind: str, options: list[Json]) -> Json:
    """Build an input element of this kind, such as `radio_buttons`, with these options."""
    return {"type": kind, "action_id": TEXT, "options": options}


# --- submitted values -----------------------------------------------------------------------------


class SubmittedValues:
    """Reads the values of a submitted modal."""

    def __init__(self, view: Json) -> None:
        self._values: Json = view.get("state", {}).get("values", {})

    def _read_entry(self, name: str) -> Json:
        (entered,) = (self._values.get(name) or {"": {}}).values()
        found: Json = entered or {}
        return found

    def has(self, name: str) -> bool:
        """Whether the modal had a field of this name."""
        return name in self._values

    def read_text(self, name: str = TEXT) -> str:
        """Return the text of a field; empty if it has no text."""
        return str(self._read_entry(name).get("value") or "")

    @property
    def reason(self) -> str:
        """The typed reason, stripped."""
        return self.read_text(REASON).strip()

    @property
    def note(self) -> str:
        """The typed note, stripped."""
        return self.read_text(_NOTE).strip()

    def read_choice(self, name: str = _NEXT) -> str | None:
        """Return the value of the chosen option."""
        option = self._read_entry(name).get("selected_option") or {}
        value: str | None = option.get("value")
        return value

    def read_choices(self, name: str) -> list[str]:
        """Return the values of the chosen options."""
        return [one["value"] for one in self._read_entry(name).get("selected_options") or []]

    def read_remember(self) -> Remember:
        """Return the chosen scope, lifetime and place of a grant."""
        return remember_as(
            self.read_choice(_SCOPE) or "",
            self.read_choice(_LIFETIME) or "1h",
            everywhere=self.read_choice(_SPAN) == EVERYWHERE,
        )

    def read_denial(self, tapped: str = "") -> JsonObject:
        """Return the content of a denial; `tapped` is a one-tap reason. Raises WrongField."""
        return read_denial(
            tapped=tapped,
            reason=self.reason,
            note=self.note,
            replan=self.read_choice() == REPLAN,
            again=self.read_choice(_AGAIN) or "",
        )

    def read_fields(self, fields: Sequence[Field]) -> list[str | list[str] | None]:
        """Return the typed text or the choice for each field of a form; None for secrets."""
        return [
            None if field.secret else self._read_field(f"{TEXT}{number}", field)
            for number, field in enumerate(fields)
        ]

    def _read_field(self, name: str, field: Field) -> str | list[str] | None:
        if field.kind is FieldKind.CHOICES:
            return self.read_choices(name)
        if field.kind in (FieldKind.BOOLEAN, FieldKind.CHOICE):
            return self.read_choice(name)
        return self.read_text(name)


# Editing in Slack: a field for each argument, or raw JSON; a diff comes before the approval.

_MOST_FIELDS = 20
_WHOLE_NUMBER_CHARS = 15  # a client's number field keeps at most this many digits exactly


def choose_edit_form(
    record: StoredRequest, card: Card, form: ModalMetadata, typed: Typed = "", refusal: str = ""
) -> Json:
    """Build the form of an edit: raw JSON if the person typed JSON before, otherwise fields."""
    fields = edit_fields(record)
    if isinstance(typed, str) and (typed or not fields):
        return build_json_form(card, form, typed or card.editable, refusal)
    return build_field_form(card, fields, form, dict(typed or {}), refusal)


def convert_to_json_form(
    record: StoredRequest, card: Card, form: ModalMetadata, view: Json
) -> Json:
    """Convert an open form of fields, with its typed values, to the raw JSON form."""
    typed = read_typed(SubmittedValues(view), edit_fields(record))
    text = edit_as_text(record, typed) if card.editable is not None else None
    return build_json_form(card, form, text)


def build_field_form(
    card: Card,
    fields: Sequence[EditField],
    form: ModalMetadata,
    typed: Mapping[str, str],
    refusal: str = "",
) -> Json:
    """Build the modal with a field for each argument that Slack has room for."""
    shown = list_shown(fields)
    if not shown:
        return build_json_form(card, form, None)
    inputs = [_build_input(one, typed.get(one.id)) for one in shown]
    blocks = [render_modal_summary(card), *_render_refusal(refusal), *inputs]
    if rest := name_left_out(fields, shown):
        blocks.append(context(plain(rest)))
    if card.editable is not None and count_units(card.editable) <= INPUT_UNITS:
        blocks.append(row("json", button("As JSON", Act.EDIT_JSON, form.button.encode())))
    elif card.inbox:
        blocks.append(row("json", link("As JSON, in the inbox", Act.OPEN, card.inbox)))
    return build_modal("Edit", blocks, form=form, kind=EDIT_FIELDS, submit="Show the changes")


def build_json_form(card: Card, form: ModalMetadata, text: str | None, refusal: str = "") -> Json:
    """Build the modal that edits raw JSON. If that cannot be shown, refer to the inbox."""
    if text is None or count_units(text) > INPUT_UNITS:
        why = "This call is too long or contains secrets. Edit it in the inbox."
        return build_referral("Edit", why, card.inbox)
    typed = {**build_text_input(), "initial_value": text}
    blocks = [
        render_modal_summary(card),
        *_render_refusal(refusal),
        build_input(TEXT, "Arguments, as JSON", typed),
    ]
    return build_modal("Edit", blocks, form=form, kind=EDIT, submit="Show the changes")


def list_shown(fields: Sequence[EditField]) -> list[EditField]:
    """Return the fields that a modal has room for."""
    return [one for one in fields if count_units(one.value) <= INPUT_UNITS][:_MOST_FIELDS]


def read_typed(values: SubmittedValues, fields: Sequence[EditField]) -> dict[str, str]:
    """Return the text typed into a form of fields, by field id."""
    found: dict[str, str] = {}
    for field in list_shown(fields):
        if not values.has(field.id):
            continue
        if field.choices or field.kind is EditKind.BOOLEAN:
            found[field.id] = values.read_choice(field.id) or ""
        else:
            found[field.id] = values.read_text(field.id)
    return found


def _build_input(field: EditField, typed: str | None) -> Json:
    value = field.value if typed is None else typed
    # A masked field left empty keeps its value; a field that was empty may stay empty.
    may_be_empty = field.masked or not field.value.strip()
    made = build_input(
        field.id, field.label.text, _build_element(field, value), optional=may_be_empty
    )
    if field.masked:
        made["hint"] = plain(UNCHANGED)
    return made


def _build_element(field: EditField, value: str) -> Json:
    if field.choices or field.kind is EditKind.BOOLEAN:
        named = [(str(at), one.text) for at, one in enumerate(field.choices)]
        options = [option(text, number) for number, text in named or YES_NO]
        chosen = [one for one in options if one["value"] == value]
        initial = {"initial_option": chosen[0]} if chosen else {}
        few = len(options) <= FEW_OPTIONS
        kind = "radio_buttons" if few else "static_select"
        return {**build_choice(kind, options), **initial}
    standing: Json = {"initial_value": value} if value.strip() else {}
    if field.kind is EditKind.NUMBER and _fits_number_field(value):
        return {
            "type": "number_input",
            "action_id": TEXT,
            "is_decimal_allowed": True,
            **standing,
        }
    element = {**build_text_input(), **standing}
    element["multiline"] = field.kind in (EditKind.LINES, EditKind.JSON)
    return element


def _fits_number_field(value: str) -> bool:
    return "e" not in value.lower() and len(value) <= _WHOLE_NUMBER_CHARS


def _render_refusal(refusal: str) -> list[Json]:
    said = f"⚠️ {refusal} {KEPT_NOTE}"
    return [context(plain(said))] if refusal else []


# A batch: each request in full, with its own buttons. Buttons for all appear only if the modal
# shows all of them.

BATCH_CHARS = 9000
_ITEM_UNITS = 900


def build_batch(batch: BatchCard, form: ModalMetadata, told: str = "") -> Json:
    """Build the modal of a batch; `told` is the result of the last click in it."""
    blocks: list[Json] = [rich("title", [line(words(one_line(batch.title.text), bold=True))])]
    if told:
        blocks.append(section(plain(told[:1].upper() + told[1:])))
    for number, card in enumerate(batch.items):
        blocks += _render_item(card, number)
    if batch.more:
        said = f"{batch.more} more do not fit here. Open them one at a time."
        blocks.append(context(plain(said)))
    if batch.deniable:
        value = form.button.encode()
        more = bool(batch.more)
        all_row = _build_all_row(batch.items, value, approves=batch.together, more=more)
        blocks += [{"type": "divider"}, all_row]
        if not batch.together:
            blocks.append(context(plain(NOT_TOGETHER)))
    return build_modal("Several requests", blocks, form=form, kind=BATCH_VIEW)


def _build_all_row(cards: Sequence[Card], value: str, *, approves: bool, more: bool) -> Json:
    """Build the buttons that decide all of these; Approve all only if it `approves`. With `more`,
    the batch has others that the modal does not show."""
    count, summaries = len(cards), "; ".join(plain_summary(card.summary) for card in cards)
    confirm = (summaries, "Approve all")
    approve = button(
        f"Approve all {count}", Act.BATCH_APPROVE, value, style="primary", confirm=confirm
    )
    every = f"Deny {'these' if more else 'all'} {count}"
    deny = button(every, Act.BATCH_DENY, value, style="danger")
    return row("all", *((approve,) if approves else ()), deny)


def _render_item(card: Card, number: int) -> Iterator[Json]:
    """Yield the blocks of one request: summary, call, risk, findings, warnings and buttons."""
    budget = TextBudget(_ITEM_UNITS)
    yield {"type": "divider"}
    above = choose_above(card)
    yield {**render_summary(card, budget), "block_id": f"summary {number}"}
    yield from render_above(card, above, budget)
    facts = [(fact.label, one_line(fact.text.text)) for fact in named_facts(card)]
    yield rich(f"body {number}", [*render_blocks(card), label_pairs(facts)])
    yield from render_findings(card, above, budget)
    yield from render_risk(card, above, budget)
    told = [f"⚠️ {one}" for one in list_warnings(card)]
    told += [text for text in (card.progress, card.claimed) if text]
    if told:
        yield lines(budget.take(one_line(one), _ITEM_UNITS) for one in told)
    yield build_actions(card, NO_COPY, block_id=f"actions {number}")
