"""Summarize a call in one sentence for its card. Start reading at `summarize`.

The gateway builds the summary itself, without a model and without the agent's description. Names
from the call are in code style, or quoted where a platform has no such style. A call that is not
understood is shown as its tool and short arguments. The worst effect comes first and the others are
counted, so that shortening cannot make a call look harmless.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from functools import partial
from shlex import join
from typing import Any

from gateway.cards.command_summary import (
    NAME_CHARS,
    SECRET_NAMED,
    CallSummary,
    SummaryLimits,
    SummaryPart,
    cut_start,
    quote,
    rank_command,
    say_command,
    say_name,
    say_ours,
    say_some,
)
from gateway.domain.plans import plan_of
from gateway.domain.records import StoredRequest
from gateway.domain.redaction import mask
from gateway.domain.safe_text import Segment, Visible
from gateway.models import Kind, RiskLevel
from gateway.policy.calls.argument_roles import (
    FREE,
    PATHS,
    Family,
    RoleSource,
    destroys,
    is_lookup,
    is_on,
    plain_name,
    words_in,
    words_of,
)
from gateway.policy.calls.call_arguments import Leaf
from gateway.policy.calls.call_effects import CallEffects, effects_of, texts_of
from gateway.policy.calls.code_effects import (
    CodeEffect,
    CodeHarm,
    count_lines,
    deleted_by_patch,
    find_in_code,
    find_in_sql,
    is_patch,
)
from gateway.policy.calls.command_effects import Harm
from gateway.policy.calls.danger_patterns import find_destructive
from gateway.policy.calls.paths import (
    PathEffect,
    PathUse,
    components,
    is_root,
    is_systems,
    lies_outside,
)
from gateway.policy.calls.shell_words import steers
from gateway.wire.roles import Role
from gateway.wire.schema import AGENT_NAME

MOST_WORDS = 10
_MOST_BEFORE = 12  # words before the call
_LABEL = 1  # of them, for the label of the call
_HIGH_RISK = "High risk"
NOTICE_CHARS = 120
"""Characters of a notification."""
_AGENT_CHARS = 24
_FOUND_CHARS = 56  # of a finding, in a notification
_MOST_SHORT = 60
_MOST_VALUE = 3  # words
_FEW_WORDS = 2  # the most in a value that alone names an effect
_MOST_INSIDE = 6  # values of one argument
_EFFECTS = tuple(PathEffect)  # the worst first
_VERBS = {PathEffect.DELETE: "Deletes", PathEffect.READ: "Reads", PathEffect.LIST: "Lists"}
_CREATING = frozenset({"create", "new", "mkdir"})
_ALTERING = frozenset({"apply", "append", "edit", "edits", "insert", "patch", "replace", "update"})
_TELLING = PATHS | {
    Role.ACTION, Role.ARGV, Role.COMMAND, Role.COMMANDS, Role.GLOB, Role.HOST, Role.INPUT,
    Role.NESTED, Role.PATCH, Role.RECIPIENT, Role.RIGHTS, Role.URL, Role.USER,
}  # fmt: skip
"""Roles of arguments that a summary names and does not merely count."""
_WEIGHT = {
    role: at
    for at, role in enumerate(
        (Role.RIGHTS, Role.USER, Role.RECIPIENT, Role.ID, Role.AMOUNT, Role.HOST, Role.URL,
         Role.FLAG, Role.ACTION, Role.INPUT, Role.NESTED, Role.UNKNOWN)
    )
}  # fmt: skip
_HARMLESS = frozenset({"json", "notify", "pretty", "quiet", "verbose"})
"""Words of switches that nobody needs to see first."""
_NOT_GIVEN: tuple[Any, ...] = (False, "", "false", "False", 0, [], {})
_USUALLY_OFF = frozenset(
    {"all", "append", "background", "bcc", "case", "cc", "create", "detach", "dirs", "dry", "edit",
     "env", "expected", "force", "hidden", "ignore", "in", "insensitive", "is", "json", "mode",
     "multiline", "notify", "offset", "overwrite", "pretty", "quiet", "recursive", "regex",
     "replace", "replacements", "run", "stdin", "use", "verbose"}
)  # fmt: skip
"""Words of arguments that have no effect while they are off or empty."""
_SAYING = frozenset(
    {"acl", "action", "admin", "exec", "execute", "hook", "merge", "method", "op", "operation",
     "out", "permission", "permissions", "policy", "role", "roles", "run", "scope", "scopes",
     "verb", "visibility"}
)  # fmt: skip
"""Words of names whose value tells the action, or who may do what."""
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_PROTECTING = frozenset(
    {"backup", "check", "checks", "confirm", "guard", "protect", "protection", "review", "safe",
     "sandbox", "ssl", "tls", "validate", "verify"}
)  # fmt: skip
"""Words of switches that protect: a summary names one that is off."""
_CODE = frozenset({"code", "js", "javascript", "program", "python", "script", "snippet", "source"})
_PATCHES = ("diff", "patch")
_REPLACED = (
    ("old_string", "new_string"), ("old_str", "new_str"), ("old_text", "new_text"), ("old", "new"),
    ("search", "replace"),
)  # fmt: skip
_DESTROYING = frozenset(
    {"delete", "destroy", "drop", "erase", "purge", "remove", "rm", "terminate", "transfer", "wipe"}
)
_EFFECT_WORDS = _DESTROYING | {"admin", "owner", "public", "root", "superuser", "truncate"}
_PATH_HARMS = {
    PathEffect.DELETE: Harm.RIGHTS, PathEffect.UNKNOWN: Harm.RUN, PathEffect.WRITE: Harm.CHANGE,
    PathEffect.READ: Harm.LOOK, PathEffect.LIST: Harm.LOOK,
}  # fmt: skip
_PAYEES = frozenset({"account", "beneficiary", "iban", "payee", "wallet"})
_MOST_COMPARED = 4_000  # characters of a text and its replacement
_TITLES = ("subject", "title")
_ROOMS = (
    SummaryLimits(6, 3),
    SummaryLimits(4, 3),
    SummaryLimits(3, 3),
    SummaryLimits(3, 2),
    SummaryLimits(2, 2),
    SummaryLimits(2, 1),
    SummaryLimits(1, 2),
    SummaryLimits(1, 1),
)
_VERB = re.compile(
    r"\b(?:Message to|(?i:adds|calls|changes|creates|deletes|downloads|drops|empties|grants|lists"
    r"|merges|plans|pushes|reads|revokes|runs|sends|sets|touches|updates|writes)\b)"
)
_COUNT = re.compile(r" and (\d+)(?: more)?(?: arguments?| calls?| statements?)?")
_HEADER = re.compile(r"^\s*[A-Za-z-]{1,20}:(?=\s)")  # before addresses: `Bcc:`
_QUOTED_NAME = re.compile(r'"[^"<>,\n]{0,200}"(?=\s{0,9}<)')  # as in `"Ana" <ana@corp.example>`
_APART = re.compile(r"[\s<>(),]+")
_CALLS = " calls "
_INFINITIVES = {"message to": "message", "empties": "empty", "touches": "touch"}
_Draft = Callable[[SummaryLimits], list[SummaryPart]]


def summarize(record: StoredRequest) -> CallSummary:
    """Return the summary of a request, at most MOST_WORDS words, with secrets masked.

    If possible, the summary is so short that the first reason for the risk also fits before the
    call.
    """
    most = dict.fromkeys((_leave_room(record), MOST_WORDS))
    return tuple(_hide_secrets(record, part) for part in _fit_summary(record, most))


def _hide_secrets(record: StoredRequest, part: SummaryPart) -> SummaryPart:
    """In one part of the request, mask the secrets that only their position reveals."""
    if not part.named or not record.secrets:
        return part
    kept: list[Segment] = []
    for text, escape in part.text.segments:
        done = 0
        for start, end in () if escape else record.find_secrets(text, named=True):
            kept += [(text[done:start], False), (SECRET_NAMED, True)]
            done = end
        kept.append((text[done:], escape))
    segments = tuple(one for one in kept if one[0])
    return SummaryPart(replace(part.text, segments=segments), named=True)


def _fit_summary(record: StoredRequest, limits: Iterable[int]) -> CallSummary:
    summaries = [*_draw_summaries(record)]
    fitting = (one for most in limits for one in summaries if count_words(one) <= most)
    return next(fitting, summaries[-1])


def _draw_summaries(record: StoredRequest) -> Iterator[CallSummary]:
    """Yield summaries of a request, the longest first."""
    draft = _draft(record)
    return (tuple(draft(room)) for room in _ROOMS)


def _leave_room(record: StoredRequest) -> int:
    """Return how many words a summary may have so that the first reason for the risk also fits
    before the call. If there are findings, no reason needs to fit."""
    high = _HIGH_RISK if record.risk.level is RiskLevel.HIGH else ""
    reasons = () if record.findings else record.risk.reasons[:1]
    taken = sum(len(text.split()) for text in (*reasons, high))
    return min(MOST_WORDS, _MOST_BEFORE - _LABEL - taken)


def own_summary(text: str) -> CallSummary:
    """Return a summary that has only the gateway's own words."""
    return (say_ours(text),)


def plain_summary(summary: CallSummary) -> str:
    """Return a summary as plain text, with names quoted as in JSON."""
    return "".join(quote(part.text.text) if part.named else part.text.text for part in summary)


def count_words(summary: CallSummary) -> int:
    """Return how many words people read in a summary; an escape counts as one word."""
    pieces = (piece for part in summary for piece in part.text.segments)
    return len("".join("⟨⟩" if escape else text for text, escape in pieces).split())


def notice_of(record: StoredRequest, ended: str = "") -> str:
    """Return a notification of at most NOTICE_CHARS characters: the agent, what it wants to do, and
    the first finding.

    It begins with how the request `ended`, or with the risk if that is high.
    """
    said: list[tuple[CallSummary, str]] = []
    for drawn in _draw_summaries(record):
        summary = tuple(_hide_secrets(record, part) for part in drawn)
        said.append(_draft_notice(record, summary, ended))
        parts, found = said[-1]
        if (
            count_words(summary) <= MOST_WORDS
            and len(plain_summary(parts)) + len(found) <= NOTICE_CHARS
        ):
            break
    parts, found = said[-1]
    return f"{_cut_notice(parts, NOTICE_CHARS - len(found))}{found}"


def _draft_notice(
    record: StoredRequest, summary: CallSummary, ended: str
) -> tuple[CallSummary, str]:
    """Return a notification with this summary, and the finding to put at its end."""
    agent = name_agent(record.request.agent)
    if ended:
        return (say_ours(f"{ended} · {agent}: "), *summary), ""
    first = f"{_HIGH_RISK} · " if record.risk.level is RiskLevel.HIGH else ""
    return (say_ours(f"{first}{agent} "), *_say_wish(record, summary)), _say_found(record, summary)


def _say_found(record: StoredRequest, summary: CallSummary) -> str:
    """Return the first finding, for the end of a notification, or "". If the summary already has a
    name that the finding has, the name is left out."""
    if not record.findings:
        return ""
    found = record.show(record.findings[0]).text
    before, colon, why = found.rpartition('": ')
    named = before.partition('"')[2]
    if colon and any(part.named and named == part.text.text for part in summary):
        found = why
    kept = found if len(found) <= _FOUND_CHARS else f"{found[: _FOUND_CHARS - 1].rstrip()}…"
    return f" · {kept}"


def _say_wish(record: StoredRequest, summary: CallSummary) -> Iterator[SummaryPart]:
    """Yield a summary as something that the agent wants to do, with its verbs as infinitives."""
    if record.request.questions:  # its verb is "asks"
        asks, *rest = summary
        yield from (say_ours(asks.text.text.lower()), *rest)
        return
    yield say_ours("wants to use " if summary[:1] and summary[0].named else "wants to ")
    for part in summary:
        counts = part.named or _COUNT.fullmatch(part.text.text)
        text = part.text.text.replace(_CALLS, " to call ")
        yield part if counts else say_ours(_VERB.sub(_say_infinitive, text))


def _say_infinitive(found: re.Match[str]) -> str:
    verb = found[0].lower()
    return _INFINITIVES.get(verb) or (verb[:-2] if verb.endswith("shes") else verb[:-1])


def _cut_notice(parts: CallSummary, most: int) -> str:
    """Return these parts as plain text. If the text must be shortened, a name is shortened and its
    quotes are closed."""
    said = ""
    for at, part in enumerate(parts):
        left = most - len(said) - (2 if at + 1 < len(parts) else 0)
        text = quote(part.text.text) if part.named else part.text.text
        if len(text) > left:
            return f"{said}{_cut_quoted(part, left)} …"
        said += text
    return said


def _cut_quoted(part: SummaryPart, most: int) -> str:
    """Return the start of a name with quotes around it, or "" if nothing fits."""
    kept = part.text.text if part.named else ""
    while kept and len(quote(f"{kept}…")) > most - 2:
        kept = kept[:-1]
    return quote(f"{kept}…") if kept else ""


def discreet_notice(agent: str, ended: str, risk: RiskLevel) -> str:
    """Return a notification that does not describe the call."""
    said = name_agent(agent)
    return f"{ended} · {said}" if ended else f"{said} asks for approval, {risk.value} risk"


def name_agent(agent: str) -> str:
    """Return an agent's name for a sentence. It is quoted unless it has only characters that are
    usual in names."""
    begun = cut_start(agent, _AGENT_CHARS, 1).text
    return begun if AGENT_NAME.fullmatch(agent) else quote(begun)


def _draft(record: StoredRequest) -> _Draft:
    request = record.request
    if request.questions:
        asked = [one.text for one in request.questions]
        return lambda room: _say_question(asked, room)
    if record.erased:
        return lambda room: [say_name(request.tool, room.words)]
    if request.kind is Kind.CALLS:
        return lambda room: _say_plan(record)
    call = effects_of(record)[0]
    said, places = _choose(call)
    more = [*_surroundings(call)]
    if request.payload is not None:
        more.append([say_ours(", with a payload")])
    rest = _list_rest(call, places)
    around = [part for one in more for part in one]
    return lambda room: _join_counts([*said(room), *_say_rest(call, rest, room), *around], room)


def _say_plan(record: StoredRequest) -> list[SummaryPart]:
    calls = plan_of(record).calls
    runs, tools = sum(one.times for one in calls), list(dict.fromkeys(one.tool for one in calls))
    said = f"Plans {runs} {'use' if runs == 1 else 'uses'} of "
    if tools[1:]:
        return [say_ours(f"{said}{len(tools)} tools")]
    return [say_ours(said), say_name(tools[0], _MOST_VALUE)]


def _join_counts(parts: list[SummaryPart], room: SummaryLimits) -> list[SummaryPart]:
    """If there is little room, join several counts of omitted parts into one, at the place of the
    last."""
    counts = {at: int(found[1]) for at, one in enumerate(parts)
              if not one.named and (found := _COUNT.fullmatch(one.text.text))}  # fmt: skip
    if room.words > 1 or len(counts) < 2:  # noqa: PLR2004
        return parts
    last = max(counts)
    kept = [one for at, one in enumerate(parts) if at not in counts or at == last]
    kept[kept.index(parts[last])] = say_ours(f" and {sum(counts.values())} more")
    return kept


def _choose(call: CallEffects) -> tuple[_Draft, frozenset[str]]:
    """Return the sentence for this kind of call, and the places of the values that it covers; ""
    means all."""
    everything = frozenset({""})
    if call.nested:
        return (lambda room: _say_nested(call, room)), _places_of_nested(call)
    patch = _find_patch(call)
    if patch is not None or call.programs:
        home, text = call.call.context.cwd, patch[1] if patch else "\n".join(_spell_programs(call))
        said = frozenset({patch[0]} if patch else (one.place for one in call.programs))
        return (lambda room: say_command(text, home, call.base, room)), said
    if call.family is Family.MESSAGE and (people := _addresses(call)):
        said = frozenset(one.place for one in call.with_role(Role.RECIPIENT))
        return (lambda room: _say_message(call, people, room)), said
    paths = [one for one in call.paths if not one.looks]
    if paths and call.family is Family.FILE and not _has_second(paths):
        said = frozenset(one.place for one in paths)
        return (lambda room: _say_paths(call, paths, room)), said
    for leaf in call.leaves:
        if (code := _find_code(leaf)) is not None:
            return partial(_say_code, call, *code), frozenset({leaf.place})
    return partial(_say_call, call), everything


def _find_patch(call: CallEffects) -> tuple[str, str] | None:
    """Return the place and text of a file tool's patch that deletes files or whose files no path
    names."""
    for leaf in call.leaves if call.family is Family.FILE else ():
        for text in texts_of(leaf.value) if leaf.role not in FREE else ():
            if is_patch(text) and (leaf.role is not Role.PATCH or deleted_by_patch(text)):
                return leaf.place, text
    return None


def _places_of_nested(call: CallEffects) -> frozenset[str]:
    """Return the arguments that contain inner calls."""
    return frozenset(_top_of(one.place) for one in call.with_role(Role.NESTED))


def _spell_programs(call: CallEffects) -> Iterator[str]:
    """Yield each command of a call as a shell would read it."""
    words = {one.place: one.value for one in call.with_role(Role.ARGV)}
    for program in call.programs:
        given = words.get(program.place)
        spelled = isinstance(given, list) and not program.wrapper
        yield join(given) if spelled and isinstance(given, list) else program.text


def _say_question(asked: Sequence[str], room: SummaryLimits) -> list[SummaryPart]:
    """Return the first question, and the number of the others unless only the whole question fits.
    If the whole question fits, it need not be repeated below the summary."""
    first = [say_ours("Asks "), say_name(asked[0], room.words + 2)]
    counted = [first[0], *say_some(asked, room.words + 2, 1)]
    cut = first[1].text.text.endswith("…")
    return counted if cut or count_words(tuple(counted)) <= MOST_WORDS else first


# --- code and SQL -----------------------------------------------------------------------------


def _find_code(leaf: Leaf) -> tuple[CodeEffect | None, int] | None:
    """Return the effect of SQL or code in a value, and its number of lines. Return None for other
    values."""
    if not isinstance(leaf.value, str) or leaf.role not in (Role.ACTION, Role.INPUT, Role.UNKNOWN):
        return None
    text = leaf.value.strip()
    if (found := find_in_sql(text)) is not None:
        return None if found.harm is CodeHarm.LOOK and not found.more else (found, 0)
    if plain_name(leaf.name) not in _CODE:
        return None
    found, lines = find_in_code(text), text.count("\n") + 1
    return (found, lines) if found is not None or lines > 1 else None


def _say_code(
    call: CallEffects, effect: CodeEffect | None, lines: int, room: SummaryLimits
) -> list[SummaryPart]:
    said = [say_name(call.call.tool, min(room.words, 3)), say_ours(": ")]
    if effect is None or lines:
        counted = f" of {lines} lines" if lines > 1 and room.words > 1 else ""
        said.append(say_ours(f"runs code{counted}"))
        named = [say_ours(": "), say_name(effect.text, max(2, room.words))] if effect else []
        return [*said, *named]
    verb = f"{effect.verb[:1].lower()}{effect.verb[1:]} "
    said += [say_ours(verb), say_name(effect.text, max(2, room.words))]
    counted = f" and {effect.more} more statement{'s' if effect.more > 1 else ''}"
    return [*said, say_ours(counted)] if effect.more else said


# --- files, messages, everything else ---------------------------------------------------------


def _say_paths(call: CallEffects, paths: list[PathUse], room: SummaryLimits) -> list[SummaryPart]:
    folder = call.call.context.cwd
    home = components(folder) if folder else None
    away = {one.text for one in paths if home and lies_outside(one.text, home, call.base)}
    paths = sorted(paths, key=lambda one: (one.text not in away, one.delicate is None))
    worst = min((one.effect for one in paths), key=_EFFECTS.index)
    named = list(dict.fromkeys(_say_path(one, call.base) for one in paths if one.effect is worst))
    others = list(dict.fromkeys(_say_path(one, call.base) for one in paths))
    others = [one for one in others if one not in named]
    words = words_of(call.call.tool)
    verb = _VERBS.get(worst)
    if verb is None:
        verb = "Creates" if words & _CREATING else "Changes" if words & _ALTERING else "Writes"
    if worst is PathEffect.UNKNOWN:
        verb = "Touches"
    said = [say_ours(f"{verb} "), *say_some(named, room.words, 1)]
    if others:
        said += [say_ours(", touches "), *say_some(others, room.words, 1)]
    elif verb == "Changes" and len(named) == 1 and (counts := _count_changes(call.call.arguments)):
        said.append(say_ours(f" (+{counts[0]} −{counts[1]})"))  # noqa: RUF001 (the sign of a diff)
    return [*said, say_ours(", outside its folder")] if away else said


def _count_changes(arguments: dict[str, Any]) -> tuple[int, int] | None:
    """Return how many lines a change of one file adds and removes. Return None if that is not
    certain, because a switch or a number may repeat the change."""
    if any(map(_may_repeat, arguments.values())):
        return None
    patches = [arguments[name] for name in _PATCHES if isinstance(arguments.get(name), str)]
    pairs = [
        (str(arguments[old]), str(arguments[new]))
        for old, new in _REPLACED
        if isinstance(arguments.get(old), str) and isinstance(arguments.get(new), str)
    ]
    if len(patches) + len(pairs) != 1:
        return None
    if patches:
        return count_lines(patches[0])
    if sum(map(len, pairs[0])) > _MOST_COMPARED:
        return None
    before, after = (text.splitlines() for text in pairs[0])
    steps = [one for one in SequenceMatcher(None, before, after).get_opcodes() if one[0] != "equal"]
    added = sum(stop - start for _, _, _, start, stop in steps)
    return added, sum(stop - start for _, start, stop, _, _ in steps)


def _may_repeat(value: Any) -> bool:
    """Whether a value may mean that the change is made more than once."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value > 1
    return (
        value is True
        or (isinstance(value, str) and is_on(value) and value.strip() != "1")
        or (isinstance(value, str) and value.isdecimal() and int(value[:9]) > 1)
    )


def _say_path(path: PathUse, base: str | None) -> str:
    """Return a path in its shortest form, relative to the folder where it runs."""
    home = components(base) if base else None
    if path.parts is None or not home or path.parts[: len(home)] != home:
        return path.text
    return "/".join(path.parts[len(home) :]) or path.text


def _has_second(paths: Sequence[PathUse]) -> bool:
    """Whether one path becomes another, as in a move. The summary has no verb for that."""
    return any(one.second for one in paths)


def _addresses(call: CallEffects) -> list[str]:
    """Return a message's recipients. Those outside the most common domain come first."""
    given = [str(one.value) for one in call.with_role(Role.RECIPIENT) if one.value]
    people = list(dict.fromkeys(one for text in given for one in _split_addresses(text)))
    places = Counter(_place_of(one) for one in people)
    usual = max(places, key=places.__getitem__, default="")
    return sorted(people, key=lambda one: _place_of(one) == usual)


def _split_addresses(text: str) -> list[str]:
    """Return the addresses in a text, without the names of people before them."""
    text = ", ".join(_HEADER.sub("", one) for one in text.splitlines()).replace(";", ",")
    words = (one.strip('"') for one in _APART.split(_QUOTED_NAME.sub(" ", text)))
    found = [one for one in words if "@" in one[1:]]
    return found or [one.strip() for one in text.split(",") if one.strip()]


def _place_of(address: str) -> str:
    return address.rpartition("@")[2].casefold()


def _say_message(call: CallEffects, people: list[str], room: SummaryLimits) -> list[SummaryPart]:
    broken = any(len(str(one.value).splitlines()) > 1 for one in call.with_role(Role.RECIPIENT))
    said = [say_ours("Message to "), *say_some(people, 2, 1)]
    said += [say_ours(", with a line break")] if broken else []
    texts = [one for one in call.leaves if isinstance(one.value, str) and one.role is Role.DATA]
    texts = [one for one in texts if not _is_secret(one.name, one.value)]
    texts.sort(key=lambda one: one.name.lower() not in _TITLES)
    if not texts:
        return said
    return [*said, say_ours(": "), say_name(str(texts[0].value), min(room.words, 4))]


def _say_nested(call: CallEffects, room: SummaryLimits) -> list[SummaryPart]:
    """Describe the worst of the inner calls, and count the others."""
    worst = min(call.nested, key=_rank_call)
    first, rest = worst.call.tool, len(call.nested) - 1
    tool = say_name(call.call.tool, min(room.words, 2))
    draft, places = _choose(worst)
    inner = [*draft(room), *_say_rest(worst, _list_rest(worst, places), room)]
    if inner[0].named:  # it begins with the tool itself
        counted = [say_ours(f" and {rest} more call{'s' if rest > 1 else ''}")] if rest else []
        return [tool, say_ours(_CALLS), *inner, *counted]
    verb = inner[0].text.text
    said = [tool, say_ours(_CALLS), *say_some([first], 1, 1, rest)]
    return [*said, say_ours(f": {verb[:1].lower()}{verb[1:]}"), *inner[1:]]


def _rank_call(call: CallEffects) -> int:
    """Return how harmful a call looks; a lower number is more harmful."""
    usual = Harm.LOOK if is_lookup(call.call.tool) else Harm.RUN
    home, ranks = call.call.context.cwd, [int(usual)]
    if call.programs:
        ranks = [rank_command("\n".join(_spell_programs(call)), home, call.base)]
    for path in call.paths:
        outside = path.delicate is not None or (
            bool(home) and lies_outside(path.text, components(home or "") or (), call.base)
        )
        ranks.append(_PATH_HARMS[path.effect] - (3 if outside else 0))
    found = [code[0].harm for leaf in call.leaves if (code := _find_code(leaf)) and code[0]]
    ranks += [Harm.DESTROY for harm in found if harm is CodeHarm.DESTROY]
    ranks += [_rank_call(one) for one in call.nested]
    if call.rights or any(destroys(one.name) and is_on(one.value) for one in call.leaves):
        ranks.append(Harm.RIGHTS)
    if words_of(call.call.tool) & _DESTROYING or _list_loud(call):
        ranks.append(Harm.DESTROY)
    looks = call.paths and not call.programs
    return min(ranks[1:] or ranks) if looks else min(ranks)


def _say_call(call: CallEffects, room: SummaryLimits) -> list[SummaryPart]:
    """Return the tool and its short arguments in words, the most important first."""
    tool = say_name(call.call.tool, min(room.words, 3))
    if not call.call.arguments:
        return [tool, say_ours(" without arguments")]
    telling = {one.place: at for at, one in enumerate(_list_telling(call, call.leaves))}
    loud = _list_loud(call)
    roles = {one.place: one.role for one in call.leaves}
    effects = {one.place for one in call.leaves if _says_effect(one)}
    items = [one for name, value in call.call.arguments.items()
             for one in _split_argument(call, name, value, telling)]  # fmt: skip
    items.sort(key=lambda one: (one[2] not in loud, *_weigh(
        one[0], one[1], roles.get(one[2]), one[2] in telling, one[2] in effects)))  # fmt: skip
    shown = items[: room.arguments]
    said = [tool, say_ours(": ")]
    for at, (name, value, place) in enumerate(shown):
        said += [say_ours(", ")] if at else []
        said.append(_say_argument(name, value, _room_of(room, loud=place in loud)))
    more = len(items) - len(shown)
    return [*said, say_ours(f" and {more} more")] if more else said


_Argument = tuple[str, Any, str]  # name, value, and place of the most important value in it


def _split_argument(
    call: CallEffects, name: str, value: Any, telling: dict[str, int]
) -> Iterator[_Argument]:
    """Yield an argument, or its values one by one if they are few, with the place of the most
    important value. If an argument has many values, only its most important one is shown."""
    inside = [one for one in call.leaves if _top_of(one.place) == name]
    loudest = min(inside, key=lambda one: telling.get(one.place, len(telling)), default=None)
    if loudest is None or loudest.place not in telling:
        yield name, value, name
    elif not isinstance(value, dict) and not any(isinstance(one, dict) for one in _list(value)):
        least = len(telling)
        order = sorted(range(len(_list(value))), key=lambda at: telling.get(f"{name}[{at}]", least))
        yield name, [value[at] for at in order] or value, loudest.place
    else:
        few = len(inside) <= _MOST_INSIDE
        shown = [one for one in inside if few or one.place in telling]
        yield from ((one.place, one.value, one.place) for one in shown)
        if len(shown) < len(inside):
            yield name, value, name


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _weigh(
    name: str, value: Any, role: Role | None, telling: bool, effect: bool
) -> tuple[bool, int]:
    """Return an argument's sort key. Short arguments come first.

    Among the short ones, effects come first, then switches that are on and important values. Then
    comes the order of _WEIGHT, and last the switches that are known to be harmless.
    """
    if effect:
        return False, -2 if _says_harm(name, value) else -1
    if value is True:
        words = words_of(name)
        return False, len(_WEIGHT) + 1 if words and words <= _HARMLESS else 0
    long = isinstance(value, dict) or len(str(value)) > _MOST_SHORT
    if telling and (long or role is Role.UNKNOWN or role not in _WEIGHT):
        return False, _WEIGHT[Role.URL] if long else 0
    return long, len(_WEIGHT) if role is None else _WEIGHT.get(role, len(_WEIGHT))


def _is_secret(name: str, value: Any) -> bool:
    """Whether a value with this name would be masked, at least in part."""
    return list(mask({name: value}).values()) != [value]


def _room_of(room: SummaryLimits, *, loud: bool) -> int:
    """Return how many words of an argument to show. An argument that looks destructive gets more
    words."""
    return min(room.words, _MOST_VALUE) + (2 if loud else 0)


def _say_argument(name: str, value: Any, room: int) -> SummaryPart:
    given = value
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        value = " ".join(value)
    if value and isinstance(value, dict | list):
        return say_name(f"{name}[{len(value)}]", room)
    text = value if isinstance(value, str) else json.dumps(value)
    if _is_secret(name, given):
        masked = cut_start(f"{name}=", NAME_CHARS, room)
        return SummaryPart(Visible((*masked.segments, (SECRET_NAMED, True)), masked=1), named=True)
    return say_name(f"{name}={text}", room)


# --- arguments beside those of the sentence -----------------------------------------------------


def _list_rest(call: CallEffects, places: frozenset[str]) -> list[Leaf]:
    """Return the values that the sentence does not cover. Data, values that change nothing, and
    values that `_surroundings` describes are left out."""
    if "" in places:
        return []
    around = {Role.ENVIRONMENT, Role.RIGHTS, Role.WORKING_FOLDER}
    users = {one.place for one in call.users[:1] if isinstance(one.value, str)}
    tools = {one.call.tool for one in call.nested}
    return [one for one in call.leaves
            if one.role not in FREE | around
            and one.place not in users
            and not (isinstance(one.value, str) and one.value in tools)
            and not any(_lies_in(one.place, said) for said in places)
            and not _changes_nothing(one)
            and not (one.role is Role.PATCH and call.family is Family.FILE)
            and not (one.role is Role.FLAG and one.source is RoleSource.TABLE
                     and type(one.value) in (int, float))]  # fmt: skip


def _lies_in(place: str, outer: str) -> bool:
    """Whether a place is the place `outer`, or inside it."""
    return place == outer or place.startswith((f"{outer}.", f"{outer}["))


def _changes_nothing(leaf: Leaf) -> bool:
    """Whether a value is missing, or turns off something that is off by default."""
    words = set(words_in(leaf.name))
    off = leaf.value in _NOT_GIVEN and bool(words) and words <= _USUALLY_OFF
    return leaf.value is None or off


def _says_effect(leaf: Leaf) -> bool:
    """Whether a value or its name expresses an action or rights, or turns off a protection."""
    words = set(words_in(leaf.name))
    if leaf.role in FREE:
        return False
    if leaf.value in (False, 0):
        return bool(words & _PROTECTING)
    saying = words & _SAYING or (leaf.address != leaf.name and "owner" in words)
    said = saying and isinstance(leaf.value, str) and leaf.value.upper() not in _SAFE_METHODS
    return bool(said and leaf.value) or _says_harm(leaf.name, leaf.value)


def _says_harm(name: str, value: Any) -> bool:
    """Whether a switch that is on, or a short value, is enough to indicate harm."""
    if is_on(value) and (destroys(name) or _EFFECT_WORDS & set(words_in(name))):
        return True
    short = isinstance(value, str) and len(value.split()) <= _FEW_WORDS
    return short and len(value) <= _MOST_SHORT and bool(_EFFECT_WORDS & set(words_in(value)))


def _list_telling(call: CallEffects, leaves: Sequence[Leaf]) -> list[Leaf]:
    """Return the values that name a path, host, recipient or program, the most harmful first."""
    loud = _list_loud(call)
    loudest = loud | {one.place for one in call.urls} | {one.place for one in call.readings}
    places = loudest | {one.place for one in call.paths}
    found = [one for one in leaves if one.role not in FREE and (
             one.role in _TELLING or one.place in places or words_of(one.name) & _PAYEES
             or _says_effect(one))]  # fmt: skip
    return sorted(found, key=lambda one: (one.place not in loud, one.place not in loudest))


def _list_loud(call: CallEffects) -> frozenset[str]:
    """Return the places of values that look destructive, or name a sensitive or outside path."""
    home = components(call.call.context.cwd or "")
    paths = {one.place for one in call.paths if one.delicate is not None
             or (home and lies_outside(one.text, home, call.base))}  # fmt: skip
    texts = {one.place for one in call.leaves if one.role not in FREE
             and isinstance(one.value, str) and any(find_destructive(one.value))}  # fmt: skip
    return frozenset(paths | texts)


def _say_rest(call: CallEffects, rest: Sequence[Leaf], room: SummaryLimits) -> list[SummaryPart]:
    """Return the names of the important arguments that the sentence leaves out, and the number of
    the others."""
    telling, loud = _list_telling(call, rest), _list_loud(call)
    shown = telling[: min(room.arguments, 2)]
    said: list[SummaryPart] = []
    for at, leaf in enumerate(shown):
        said += [say_ours(", " if at else ", with ")]
        words = _room_of(room, loud=leaf.place in loud)
        said.append(_say_argument(leaf.address.replace("[]", ""), leaf.value, words))
    more = len({_top_of(one.place) for one in rest} - {_top_of(one.place) for one in shown})
    more = more or len(telling) - len(shown)
    if not more:
        return said
    counted = f"{more} {'more ' if room.words > 1 else ''}argument{'s' if more > 1 else ''}"
    return [*said, say_ours(f" and {counted}")]


def _top_of(place: str) -> str:
    """Return the argument that contains a value."""
    return re.split(r"[.\[]", place, maxsplit=1)[0]


# --- context of a call ------------------------------------------------------------------------


def _surroundings(call: CallEffects) -> Iterator[list[SummaryPart]]:
    """Yield the parts of the context that change a call's meaning: environment variables, rights,
    user and folder."""
    context = call.call.context
    names = [*context.env, *(one.name for one in call.environment if _sets(one))]
    if names:
        names.sort(key=lambda one: not steers(one))
        yield [say_ours(", sets "), *say_some(names, 1, 1)]
    if call.rights:
        yield [say_ours(", with more rights")]
    for user in call.users[:1]:
        if isinstance(user.value, str):
            yield [say_ours(", as "), say_name(user.value, 1)]
    folder = call.base
    moved = call.base_source not in ("", "context") and folder != context.cwd
    if call.programs and folder and (moved or is_root(folder) or is_systems(folder, folder)):
        yield [say_ours(" in "), say_name(_say_folder(folder, context.cwd), 1)]


def _say_folder(folder: str, home: str | None) -> str:
    """Return a folder in its shortest form, relative to the one where the agent works."""
    inside = home and folder.startswith(f"{home.rstrip('/')}/")
    return folder[len(home.rstrip("/")) + 1 :] if home and inside else folder


def _sets(leaf: Leaf) -> bool:
    """Whether a value sets a variable. An argument called "environment" may instead name a stage,
    such as staging."""
    inside = leaf.address != leaf.name
    return inside or not isinstance(leaf.value, str) or "=" in leaf.value
