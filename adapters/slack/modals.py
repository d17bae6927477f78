"""The modals: reasons, edits, answers, what to remember, and the full view."""

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
_PART_UNITS = 40  # of what is remembered, in a label that has no room for all of it
REPLAN = "replan"
_MORE = (
    (Act.DETAILS, "Details", "All that runs, who asks, ids and digest"),
    (Act.EDIT, "Edit…", "Approve it with other arguments"),
    (Act.RESPOND, "Respond instead…", "The agent gets your words as the result"),
    (Act.REMEMBER, "Remember…", "Approve this, and the same from now on"),
    (Act.ABORT, "Deny and stop…", "Deny, and stop the turn or the agent"),
)
_CLAIMS = {
    False: (Act.CLAIM, "I'm looking at it", "The others see that you are at it"),
    True: (Act.UNCLAIM, "Not looking any more", "The card says that you are looking"),
}


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


def build_notice(title: str, text: str) -> Json:
    """Return a modal with a text."""
    return build_modal(title, [section(plain(text))])


def build_referral(title: str, text: str, inbox: str) -> Json:
    """Return a modal with a text that sends people to the inbox, and how they get there: a button,
    or words where it has no address."""
    way = row("inbox", link("Open in the inbox", Act.OPEN, inbox)) if inbox else lines((NO_LINK,))
    return build_modal(title, [section(plain(text)), way])


def build_more(
    card: Card, form: ModalMetadata, *, refusal: str, mine: bool, batch: int = 1
) -> Json:
    """Return the modal behind "More…": everything else that may be done, each in a line. Who may
    not decide, for the reason in `refusal`, may look; `mine` says that they said they are looking.
    """
    value = form.button.encode()
    offered = {FORMS[one.action] for one in card.controls if is_offered(card, one)}
    if Action.APPROVE in card.remembers:
        offered.add(Act.REMEMBER)
    rows = [_MORE[0], *(one for one in _MORE if not refusal and one[0] in offered)]
    if not refusal:
        rows.append(_CLAIMS[mine])
    if batch > 1:
        said = "All that was asked with it, on one card"
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
    """Return the modal of a denial: reasons that take one tap, words, and whether the agent shall
    plan again."""
    ways = [
        option("Deny", Action.DENY, "The agent is told no, and why"),
        option(ANOTHER_PLAN, REPLAN, "The agent plans again with your words"),
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
        build_input(_NEXT, "What then", _build_choice_with_default("radio_buttons", ways)),
    ]
    if Action.DENY in card.remembers:
        again = [option(said, value) for value, said in AGAIN.items()]
        menu = _build_choice_with_default("static_select", again)
        blocks.append(build_input(_AGAIN, AGAIN_LABEL, menu))
    return build_modal("Deny", blocks, form=form, kind=DENY, submit="Deny")


def _build_words() -> list[Json]:
    """Return the fields of a denial's reason and of its note."""
    reason, note = "Reason, for the agent", "Note for the record, never for the agent"
    return [
        build_input(name, text, build_text_input(), optional=True)
        for name, text in ((REASON, reason), (_NOTE, note))
    ]


def build_abort(card: Card, form: ModalMetadata) -> Json:
    """Return the modal of deny and stop: the reason, and what stops."""
    ways = [option("Stop this turn", "turn"), option("Stop the agent", "agent")]
    blocks = [
        *_build_summary(card),
        *_build_words(),
        build_input(_NEXT, "What stops", _build_choice_with_default("radio_buttons", ways)),
    ]
    return build_modal("Deny and stop", blocks, form=form, kind=ABORT, submit="Deny and stop")


def build_remember(
    card: Card,
    form: ModalMetadata,
    scopes: Sequence[RememberOption],
    reach: Mapping[str, str],
    usual: str = "",
) -> Json:
    """Return the modal that asks for scope, place and lifetime of a grant.

    `reach` describes for each scope what it would have covered recently. The `usual` one is chosen
    first.
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
            "Approve this, and from now on",
            _build_choice_with_default("radio_buttons", covers, usual),
        ),
        build_input(_SPAN, "Where", _build_choice_with_default("radio_buttons", spans)),
        build_input(_LIFETIME, "How long", _build_choice_with_default("static_select", ends)),
    ]
    return build_modal("Remember", blocks, form=form, kind=REMEMBER, submit="Approve, remember")


def _say_short(number: int, scope: RememberOption) -> str:
    """Return the label of what is remembered: its name, or as many of its parts as find room. All
    of it stands above, under the same number."""
    text = one_line(scope.words.text)
    named, _, _ = text.partition(": ")
    if scope.session_pass or named == _EXACTLY:
        return f"{number}. {named}"
    if count_units(whole := f"{number}. {text}") <= LABEL_UNITS:
        return whole
    rest = f" (more of it under {number} above)"
    while ", " in text and count_units(text) > _PART_UNITS:
        text = text.rpartition(", ")[0]
    return f"{number}. {clip(text, _PART_UNITS)}{rest}"


def _build_choice_with_default(kind: str, options: list[Json], usual: str = "") -> Json:
    """Return a choice with the usual option as the default, or the first one, the narrowest."""
    first = next((one for one in options if one["value"] == usual), options[0])
    return {**build_choice(kind, options), "initial_option": first}


def build_edit_check(changed: str, form: ModalMetadata) -> Json:
    """Return the modal that shows an edit as a diff, to be confirmed."""
    warning = "This is high risk. " if form.high else ""
    blocks = [
        section(plain(f"{warning}This is what you changed. It runs exactly so.")),
        rich("changes", [exact(changed)]),
        row("again", button("Edit again", Act.EDIT_AGAIN, form.button.encode())),
    ]
    return build_modal("Approve with changes", blocks, form=form, kind=CHECK, submit="Approve")


def build_number(card: Card, form: ModalMetadata, control: Control, guesses: int) -> Json:
    """Return the modal that asks for the number of a step-up, after so many wrong ones."""
    typed = {"type": "plain_text_input", "action_id": TEXT, "max_length": 3}
    field = build_input(TEXT, NUMBER_LABEL, typed, optional=control.optional)
    if control.optional:
        field["hint"] = plain(NUMBER_OPTIONAL)
    asked = [*_build_summary(card), lines((control.question, warn_of_tries(guesses))), field]
    return build_modal("Approve", asked, form=form, kind=NUMBER, submit=control.yes)


def build_route_choice(words: str, channel: str, routes: Sequence[str]) -> Json:
    """Return the modal that asks an admin whose requests come to a channel too."""
    named = [one for one in routes if count_units(one) <= _VALUE_UNITS][:_MOST_OPTIONS]
    menu = build_choice("static_select", [option(one, one) for one in named])
    blocks = [section(plain(f"Requests come to {words} too.")), build_input(ROUTE, "Route", menu)]
    view = build_modal("Send requests here", blocks, kind=ADD_PLACE, submit="Send them here")
    return {**view, "private_metadata": channel}


def build_respond(card: Card, form: ModalMetadata) -> Json:
    """Return the modal that asks for the result the agent gets instead."""
    field = build_input(
        TEXT, "Result, given to the agent instead of running it", build_text_input()
    )
    return build_modal(
        "Respond instead", [*_build_summary(card), field], form=form, kind=RESPOND, submit="Send"
    )


def build_answer(card: Card, form: ModalMetadata) -> Json:
    """Return the modal with a question's fields."""
    if any(field.secret and field.required for field in card.fields):
        return build_referral("Answer", SECRET_ASKED, card.inbox)
    if any(len(field.choices) > _MOST_OPTIONS for field in card.fields):
        why = "There are too many choices for Slack: answer in the inbox."
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
    first = card.fields[0]  # says the same as the summary, unless that had no room for it
    said_twice = not first.secret and first not in card.unsaid
    leads = [] if said_twice else [render_modal_summary(card)]
    return build_modal("Answer", [*leads, *asked], form=form, kind=ANSWER, submit="Answer")


def page_fits(text: str) -> bool:
    """Whether this fits a page of the full view."""
    return count_units(text) <= PAGE_UNITS


def build_details(card: Card, full: FullView, form: ModalMetadata, *, refusal: str) -> Json:
    """Return one page of the full view. The last has the buttons, or says why there are none.

    If a page is not shown whole, the request cannot be approved.
    """
    pages = full.pages
    if not all(page_fits(one.text) for one in pages):
        way = "" if card.inbox else f" {NO_LINK}"
        unread = f"This cannot be approved here: Slack cannot show all of a page.{way}"
        refusal = refusal or unread
    page = form.page
    value = form.button.encode()
    last = page >= len(pages) - 1  # a question may have none at all
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
    """Return what stands below the last page: the buttons, or why there are none."""
    if card.hides and form.page > 0:  # the first page says it, too
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
    """Return how it ended, who approved, what came of it, and the note, each in a line."""
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
        told = card.changed_aside  # else the line above says who
        who = one_line(told.text) if told is not None else "What was changed"
        yield rich("changed", [label(who), changed])


def _render_first(card: Card, full: FullView) -> Iterator[Json]:
    """Return what stands above the first page: who asks, why, what was found, what it warns of,
    what is not known."""
    facts = [(fact.label, clip(one_line(fact.text.text), 500)) for fact in card.facts]
    parts = [quote(clip(field.text.text, 500)) for field in card.unsaid]
    parts += [label_pairs(facts)] if facts else []
    if card.says is not None:
        said = quote(clip(card.says.text, 3000))
        parts += [label(f"The agent's own words, {card.unverified}"), said]
    yield rich("about", parts or [label("No more is known")])
    if card.changed_by is not None and not card.final:
        yield context(plain(one_line(card.changed_by.text)))
    yield from render_all_found(card, TextBudget(INPUT_UNITS))
    yield from render_because(card, TextBudget(INPUT_UNITS))
    yield from render_notices(list_warnings(card))
    if full.undeclared is not None:
        yield context(plain(one_line(full.undeclared.text), INPUT_UNITS))


def render_modal_summary(card: Card) -> Json:
    """Return the summary of a card, as modals begin with it."""
    return render_summary(card, TextBudget(INPUT_UNITS))


def _build_summary(card: Card) -> list[Json]:
    """Return what a modal is about: the summary, what was found, and exactly what runs, as far as
    it fits here."""
    made = [render_modal_summary(card), *render_all_found(card, TextBudget(ABOUT_CHARS))]
    if parts := render_blocks(card):
        made.append(rich("about", parts))
    if not card.complete:
        made.append(context(plain(f"Cut here: {card.size}. Details has all of it.")))
    return made


def build_input(name: str, text: str, element: Json, *, optional: bool = False) -> Json:
    """Return a field with its label."""
    return {
        "type": "input",
        "block_id": name,
        "label": plain(text, _LABEL_TEXT),
        "element": element,
        "optional": optional,
    }


def build_text_input() -> Json:
    """Return an element for a text of several lines."""
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
    """Return an element to choose with."""
    return {"type": kind, "action_id": TEXT, "options": options}


# --- what was submitted ---------------------------------------------------------------------------


class SubmittedValues:
    """The values of a submitted modal."""

    def __init__(self, view: Json) -> None:
        self._values: Json = view.get("state", {}).get("values", {})

    def _read_entry(self, name: str) -> Json:
        (entered,) = (self._values.get(name) or {"": {}}).values()
        found: Json = entered or {}
        return found

    def has(self, name: str) -> bool:
        """Whether the modal had such a field."""
        return name in self._values

    def read_text(self, name: str = TEXT) -> str:
        """Return the text of a field, empty for none."""
        return str(self._read_entry(name).get("value") or "")

    @property
    def reason(self) -> str:
        """The reason that was typed."""
        return self.read_text(REASON).strip()

    @property
    def note(self) -> str:
        """The note that was typed."""
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
        """Return what to remember."""
        return remember_as(
            self.read_choice(_SCOPE) or "",
            self.read_choice(_LIFETIME) or "1h",
            everywhere=self.read_choice(_SPAN) == EVERYWHERE,
        )

    def read_denial(self, tapped: str = "") -> JsonObject:
        """Return what a denial says, with the reason that was tapped. Raises WrongField."""
        return read_denial(
            tapped=tapped,
            reason=self.reason,
            note=self.note,
            replan=self.read_choice() == REPLAN,
            again=self.read_choice(_AGAIN) or "",
        )

    def read_fields(self, fields: Sequence[Field]) -> list[str | list[str] | None]:
        """Return what was typed into the fields of a question, or chosen."""
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


# Editing in Slack: a field for each argument, the raw JSON one tap away, and the changes shown
# before they are approved.

_MOST_FIELDS = 20
_WHOLE_NUMBER_CHARS = 15  # what a number field of a client keeps to the last digit


def choose_edit_form(
    record: StoredRequest, card: Card, form: ModalMetadata, typed: Typed = "", refusal: str = ""
) -> Json:
    """Return the form of an edit: of fields, or of the raw JSON where that was typed."""
    fields = edit_fields(record)
    if isinstance(typed, str) and (typed or not fields):
        return build_json_form(card, form, typed or card.editable, refusal)
    return build_field_form(card, fields, form, dict(typed or {}), refusal)


def convert_to_json_form(
    record: StoredRequest, card: Card, form: ModalMetadata, view: Json
) -> Json:
    """Return the raw JSON of what stands in an open form of fields."""
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
    """Return the modal with a field for each argument, as far as Slack has room for it."""
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
    """Return the modal to edit the raw JSON."""
    if text is None or count_units(text) > INPUT_UNITS:
        why = "This is too long, or holds secrets: edit it in the inbox."
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
    """Return what was typed into a form of fields, by their ids."""
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
    # One that is masked stays as it is where nothing is typed; one that was empty may stay so.
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


# A batch: each of its requests whole, answered one by one, or all at once where all of them were
# read there.

BATCH_CHARS = 9000
_ITEM_UNITS = 900


def build_batch(batch: BatchCard, form: ModalMetadata, told: str = "") -> Json:
    """Return the modal of a batch."""
    blocks: list[Json] = [rich("title", [line(words(one_line(batch.title.text), bold=True))])]
    if told:
        blocks.append(section(plain(told[:1].upper() + told[1:])))
    for number, card in enumerate(batch.items):
        blocks += _render_item(card, number)
    if batch.more:
        blocks.append(context(plain(f"{batch.more} more do not fit here: open each alone.")))
    if batch.deniable:
        value = form.button.encode()
        more = bool(batch.more)
        all_row = _build_all_row(batch.items, value, approves=batch.together, more=more)
        blocks += [{"type": "divider"}, all_row]
        if not batch.together:
            blocks.append(context(plain(NOT_TOGETHER)))
    return build_modal("Several requests", blocks, form=form, kind=BATCH_VIEW)


def _build_all_row(cards: Sequence[Card], value: str, *, approves: bool, more: bool) -> Json:
    """Return the buttons that answer all of these at once; not all may be approved so. With `more`
    there are others that are not shown."""
    count, summaries = len(cards), "; ".join(plain_summary(card.summary) for card in cards)
    confirm = (summaries, "Approve all")
    approve = button(
        f"Approve all {count}", Act.BATCH_APPROVE, value, style="primary", confirm=confirm
    )
    every = f"Deny {'these' if more else 'all'} {count}"
    deny = button(every, Act.BATCH_DENY, value, style="danger")
    return row("all", *((approve,) if approves else ()), deny)


def _render_item(card: Card, number: int) -> Iterator[Json]:
    """Yield one request: its summary, what was found, exactly what runs, its answers."""
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
