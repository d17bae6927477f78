"""Find signs that a request destroys something or reads secrets. Start reading at `assess`.

Signs are not proof, and a request without signs may still do harm. Guardrails are report-only by
default: the findings appear on the card and in the audit log, and decide nothing.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, pairwise

from gateway.domain.policy_document import Guardrails, PolicyDocument, Ruling
from gateway.domain.records import StoredRequest
from gateway.domain.redaction import start_of
from gateway.domain.risk import GUARDRAILS, RaisedRisk, lift
from gateway.models import Kind, RiskLevel
from gateway.policy.calls.argument_roles import destroys, is_on
from gateway.policy.calls.call_effects import CallEffects, Leaf, PathEffect, effects_of, texts_of
from gateway.policy.calls.command_effects import find_changed_paths
from gateway.policy.calls.danger_patterns import find_destructive, find_in_script, words_that_act
from gateway.policy.calls.paths import (
    components,
    delicate,
    delicate_word,
    is_everything,
    leads_away,
    lies_outside,
    lies_with_system,
    stands_for_secret,
)
from gateway.policy.calls.recipients import find_outside
from gateway.policy.calls.script import read_script
from gateway.policy.calls.shell_words import steers
from gateway.policy.plans import lines_of, quorum_of, risks_of

_MOST_TEXT = 20_000
_MOST_FOUND = 8
_MOST_PATH = 80
_MOST_QUOTED = 160
_CHANGING = frozenset({PathEffect.DELETE, PathEffect.WRITE})
_SEEING = frozenset({PathEffect.READ, PathEffect.LIST})
_OUTSIDE = "changes what is outside its working folder"
_SYSTEMS = "it is the system's"
_NAMES = "names "
_SECRET = "[secret]"
_ROOT = frozenset({"root", "0"})
_ALARM = RaisedRisk(decider=GUARDRAILS, by="the guardrails", level=RiskLevel.HIGH)

_SET = re.compile(r"(?:^|[\s;])([A-Za-z_]\w*)=")
_WORDS = re.compile(r"[^\s\"'`;|&<>()=,\[\]{}]+")


def assess(record: StoredRequest, ruling: Ruling) -> StoredRequest:
    """Return a record with the risk and the findings of its current call, under a policy. Call this
    for each new record and after each change of the call.

    A risk that deciders raised stays raised. Active guardrails raise the risk of a request with
    findings. Raises InvalidRequest for an invalid plan.
    """
    policy = ruling.policy
    watched = policy.guardrails is not Guardrails.OFF
    found = _find_all(record, policy) if watched else ()
    in_force = policy.guardrails in (Guardrails.ASK, Guardrails.DENY)
    others = tuple(one for one in record.raised if one.decider != GUARDRAILS)
    assessed = record.copy_with(
        findings=tuple(one.words for one in found),
        finding_places=tuple(one.place for one in found),
        raised=(_ALARM, *others) if found and in_force else others,
    )
    return calculate_risk(assessed, ruling)


def calculate_risk(record: StoredRequest, ruling: Ruling) -> StoredRequest:
    """Return a record with the risk and the quorum of its current call, from the policy and the
    risks that deciders raised. The quorum is never lowered."""
    edited = record.edited
    request = record.request if edited is None else replace(record.request, arguments=edited)
    base = ruling.policy.risk_of(request, record.arguments)
    lines = lines_of(ruling.policy, record)
    raised = (*record.raised, *risks_of(lines, ruling.policy))
    weighed = record.copy_with(risk=lift(base, raised))
    quorum = max(ruling.quorum(weighed), quorum_of(lines, ruling.policy))
    return weighed if quorum <= record.quorum else weighed.copy_with(quorum=quorum)


@dataclass(frozen=True, slots=True)
class GuardrailFinding:
    """One sign in a few words, and the address of the value that shows it."""

    words: str
    place: str
    destroys: bool = True  # or reads secrets; False if it is only worth a look


def _find_all(record: StoredRequest, policy: PolicyDocument) -> tuple[GuardrailFinding, ...]:
    """Return each sign of a request. If the request is a plan, the place of a sign is the plan's
    line."""
    if record.request.kind is not Kind.CALLS:
        return find_dangers(record, policy.own_domains)
    found: dict[str, GuardrailFinding] = {}
    for line in lines_of(policy, record):
        for sign in find_dangers(line.record, policy.own_domains):
            found.setdefault(sign.words, replace(sign, place=f"line {line.number}"))
    return tuple(found.values())[:_MOST_FOUND]


def find_dangers(record: StoredRequest, own: tuple[str, ...] = ()) -> tuple[GuardrailFinding, ...]:
    """Return the signs of a request, each with the place of the first value that shows it. A
    recipient outside the `own` domains is also a sign."""
    found: dict[str, GuardrailFinding] = {}
    for call in chain.from_iterable(one.everything() for one in effects_of(record)):
        looks = (_in_texts, _in_joined, _in_paths, _in_commands, _in_arguments, _in_surroundings)
        for shown in chain(*(look(call) for look in looks), _in_recipients(call, own)):
            sign = _hide_secrets(record, shown)
            if sign is None:
                continue
            found.setdefault(sign.words, sign)
            if len(found) == _MOST_FOUND:
                return tuple(found.values())
    return tuple(found.values())


def _in_recipients(call: CallEffects, own: tuple[str, ...]) -> Iterator[GuardrailFinding]:
    for leaf, who in find_outside(call, own):
        says = f"reaches {_quote_path(who)}, outside your own domains"
        yield GuardrailFinding(says, leaf.place, False)


def _in_texts(call: CallEffects) -> Iterator[GuardrailFinding]:
    """Search all texts that run, are typed, are passed to inner calls or are unknown. Data and
    remarks are never searched."""
    commands = {one.text for one in call.programs if one.proven and not call.foreign_shell}
    for place, text in call.texts_to_look_through():
        if len(text) > _MOST_TEXT:
            yield GuardrailFinding("is too long to check", place)
        shown = text[:_MOST_TEXT]
        script = read_script(shown)
        sure = script.whole and text in commands
        for says in chain(find_in_script(shown), () if sure else find_destructive(shown)):
            yield GuardrailFinding(says, place)
        acting = (words_that_act(script, at, names=False) for at in range(len(script.steps)))
        parts = chain(() if sure else (shown,), chain.from_iterable(acting))
        for word in dict.fromkeys(chain.from_iterable(map(_WORDS.findall, parts))):
            yield from _secret(word, place)


def _in_joined(call: CallEffects) -> Iterator[GuardrailFinding]:
    """Search the commands whose words come from several values."""
    seen = {text for _, text in call.texts_to_look_through()}
    ways = (way for one in call.readings for way in one.ways)
    for one in chain(call.programs, *(way.programs for way in ways)):
        if one.text not in seen:
            words = one.words or ()
            text = shlex.join(word.text for word in words) if words else one.text
            yield from (
                GuardrailFinding(says, one.place) for says in find_in_script(text[:_MOST_TEXT])
            )


def _in_paths(call: CallEffects) -> Iterator[GuardrailFinding]:
    folder = call.call.context.cwd
    home = components(folder) if folder is not None else None
    ways = (way for one in call.readings for way in one.ways)
    for path in chain(call.paths, *(way.paths for way in ways)):
        if path.looks:
            continue
        secret = list(_secret(path.text, path.place))
        yield from secret
        changes = path.effect in _CHANGING
        if path.effect in _SEEING or secret:
            continue
        if changes and path.delicate is not None:
            yield GuardrailFinding(
                f"changes {_quote_path(path.text)}: {path.delicate}", path.place, False
            )
        elif lies_with_system(path.text, home, call.base):
            verb = "changes" if changes else "touches"
            yield GuardrailFinding(
                f"{verb} {_quote_path(path.text)}: {_SYSTEMS}", path.place, False
            )
        elif not changes:
            continue
        elif home and path.parts is not None and path.parts[: len(home)] != home:
            yield GuardrailFinding(_OUTSIDE, path.place, False)


def _in_commands(call: CallEffects) -> Iterator[GuardrailFinding]:
    """Check every word of every command, also in lists of commands and unparsed ones."""
    folder = call.call.context.cwd
    home = components(folder) if folder is not None else None
    for program in call.all_programs():
        for text in find_changed_paths(program.text):
            for why in _say_why_outside(text, home, program.base):
                yield GuardrailFinding(why, program.place, False)


def _say_why_outside(text: str, home: tuple[str, ...] | None, base: str | None) -> Iterator[str]:
    """Yield the signs of paths that a command changes outside the working folder. A file there may
    run later, belong to the system, or only be outside."""
    systems = lies_with_system(text, home, base)
    if not (systems or (leads_away(text) if home is None else lies_outside(text, home, base))):
        return
    named = delicate_word(text, written=False) is not None  # another check reports it
    why = delicate(text, base) or (_SYSTEMS if systems else None)
    if why is not None and not named:
        yield f"changes {_quote_path(text)}: {why}"
    if home is not None and not systems:
        yield _OUTSIDE


def _in_arguments(call: CallEffects) -> Iterator[GuardrailFinding]:
    for leaf in call.leaves:
        if destroys(leaf.name) and is_on(leaf.value):
            yield GuardrailFinding(f"turns {_quote_path(leaf.name)} on", leaf.place, False)


def _in_surroundings(call: CallEffects) -> Iterator[GuardrailFinding]:
    changes = any(path.effect in _CHANGING for path in call.all_paths())
    if call.base and is_everything(call.base) and (changes or any(call.all_programs())):
        place = "" if call.base_source == "context" else call.base_source
        yield GuardrailFinding(
            f"works in {_quote_path(call.base)}, which holds everything", place, False
        )
    for leaf in call.rights:
        yield GuardrailFinding("asks for more rights", leaf.place, False)
    named = [(name, "") for name in call.call.context.env]
    named += [(name, leaf.place) for leaf in call.environment for name in _list_variables(leaf)]
    for name, place in named:
        if steers(name):
            yield GuardrailFinding(
                f"sets {_quote_path(name)}, by which other code may run", place, False
            )
    for leaf in call.users:
        if str(leaf.value).strip().lower() in _ROOT:
            yield GuardrailFinding("runs as root", leaf.place, False)


def _list_variables(leaf: Leaf) -> Iterator[str]:
    """Yield the variables that a value sets. The argument's own name, such as `env`, is not a
    variable."""
    if leaf.name != "env":
        yield leaf.name
    for text in texts_of(leaf.value):
        yield from _SET.findall(text)


def _secret(path: str, place: str) -> Iterator[GuardrailFinding]:
    why = delicate_word(path, written=False)
    if why is None and stands_for_secret(path):
        why = "it may hold secrets"
    if why is not None:
        yield GuardrailFinding(f"{_NAMES}{_quote_path(path)}: {why}", place)


def _hide_secrets(record: StoredRequest, sign: GuardrailFinding) -> GuardrailFinding | None:
    """Return a sign, with the request's secrets masked where it quotes them. Return None if it
    quotes only a secret that was mistaken for a path."""
    if '"' not in sign.words:
        return sign
    before, quoted, behind = _split_at_quotes(sign.words)
    spans = record.find_secrets(quoted)
    if not spans:
        return sign
    left = [quoted[end:start] for end, start in pairwise((0, *chain(*spans), len(quoted)))][::2]
    whole = before == _NAMES and not behind.startswith("…")
    if whole and delicate_word("".join(left).strip('"'), written=False) is None:
        return None
    return replace(sign, words=before + _SECRET.join(left) + behind)


def _split_at_quotes(words: str) -> tuple[str, str, str]:
    begin, end = words.index('"'), words.rindex('"') + 1
    return words[:begin], words[begin:end], words[end:]


def _quote_path(path: str) -> str:
    """Quote a path in ASCII, so that it cannot end the quotation or begin a new line. A "…" after
    it means that it was shortened."""
    kept = start_of(path, _MOST_PATH)
    while len(quoted := json.dumps(kept)) > _MOST_QUOTED:  # JSON writes an emoji in 12 characters
        kept = start_of(kept, len(kept) * 2 // 3)
    return quoted if kept == path else f"{quoted}…"
