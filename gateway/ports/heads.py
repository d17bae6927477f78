"""The head of a card: one sentence of what happens, made from the understood call.

No model and no word of the agent makes it. What the call names stands in it as a name: in code
style, or quoted where there is no style. What is not understood is said as it is, the tool and its
short arguments. What weighs most is named first, and the rest is counted, so that no cut reads
harmless.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any

from gateway.domain.records import Record
from gateway.domain.redaction import holds_secrets, mask, render_safe, secrets_in, start_of
from gateway.domain.safe_text import Segment, Visible
from gateway.models import RiskLevel
from gateway.policy.calls.changed_paths import (
    find_changed_paths,
    is_idle,
    is_led,
    is_loud,
    list_commands,
    list_deleted,
    list_plain,
    rank_command,
)
from gateway.policy.calls.environment import steers
from gateway.policy.calls.leaves import Leaf
from gateway.policy.calls.patches import count_lines
from gateway.policy.calls.path_uses import PathEffect, PathUse
from gateway.policy.calls.paths import MAX_PATH, components, is_root, is_systems, lies_outside
from gateway.policy.calls.switches import destroys, is_on
from gateway.policy.calls.tool_names import Family, words_of
from gateway.policy.calls.touches import Touches, touches_of
from gateway.wire.roles import Role

MOST_WORDS = 10
_MOST_BEFORE = 12  # words before what runs
_LABEL = 1  # of them, that names what runs
_HIGH_RISK = "High risk"
NOTICE_CHARS = 120
"""Characters of a notification."""
SECRET_NAMED = "⟨secret⟩"
"""What stands in a head where a secret would."""
_NAME_CHARS = 40
_WHOLE_CHARS = 60  # of a command that is said whole
_AGENT_CHARS = 24
_MOST_NAMED = 2  # programs
_NAMED_WORDS = 2  # of each, where there is little room
_ROOM_TO_DO = 3
_DOING = frozenset(
    ("apt", "apt-get", "aws", "az", "brew", "bun", "cargo", "docker", "dnf", "flux", "gcloud", "gh",
     "git", "go", "helm", "kubectl", "npm", "pip", "pip3", "pnpm", "podman", "pulumi", "service",
     "systemctl", "terraform", "tofu", "uv", "yarn")
)  # fmt: skip
"""Programs whose first word says what they do."""
_DO = re.compile(r"[a-z][a-z0-9_.:-]{0,23}")
_DESTROYING = re.compile(r"--(?:delete|force|hard|mirror|prune|purge|remove)(?:-[a-z-]{1,24})?")
_MOST_SHORT = 60
_LOOKED_AT = 200  # characters of a name
_BLANKS = re.compile(r"\s+")
_EFFECTS = tuple(PathEffect)  # the worst first
_VERBS = {PathEffect.DELETE: "Deletes", PathEffect.READ: "Reads", PathEffect.LIST: "Lists"}
_CREATING = frozenset({"create", "new", "mkdir"})
_ALTERING = frozenset({"apply", "append", "edit", "edits", "insert", "patch", "replace", "update"})
_WEIGHT = {
    role: at
    for at, role in enumerate(
        (Role.RIGHTS, Role.USER, Role.RECIPIENT, Role.ID, Role.AMOUNT, Role.HOST, Role.URL,
         Role.FLAG, Role.ACTION, Role.INPUT, Role.NESTED, Role.UNKNOWN)
    )
}  # fmt: skip
_HARMLESS = frozenset({"json", "notify", "pretty", "quiet", "verbose"})
"""Words of switches that nobody has to see before what is done."""
_PATCHES = ("diff", "patch")
_REPLACED = (
    ("old_string", "new_string"), ("old_str", "new_str"), ("old_text", "new_text"), ("old", "new"),
    ("search", "replace"),
)  # fmt: skip
_MOST_COMPARED = 4_000  # characters of a text and what stands for it
_TITLES = ("subject", "title")


@dataclass(frozen=True, slots=True)
class HeadPart:
    """A piece of a head, on one line: words of ours, or, when `named`, a name from the call."""

    text: Visible
    named: bool = False


Head = tuple[HeadPart, ...]


@dataclass(frozen=True, slots=True)
class Room:
    """How much a head may say: `words` of each name, and so many `arguments`."""

    words: int
    arguments: int


_ROOMS = (Room(6, 3), Room(4, 3), Room(3, 3), Room(3, 2), Room(2, 2), Room(1, 2), Room(1, 1))
_Draft = Callable[[Room], list[HeadPart]]


def head_of(record: Record) -> Head:
    """Return the head of a request, at most MOST_WORDS words, and where that can be, so few that
    what was found first has room beside it. Secrets in it are always masked."""
    return tuple(_hide_secrets(record, part) for part in _fit_head(record))


def _hide_secrets(record: Record, part: HeadPart) -> HeadPart:
    """Return a part without the secrets that only their place in the request tells."""
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
    return HeadPart(replace(part.text, segments=segments), named=True)


def _fit_head(record: Record) -> Head:
    draft = _draft(record)
    for most in dict.fromkeys((_leave_room(record), MOST_WORDS)):
        for room in _ROOMS:
            head = tuple(draft(room))
            if count_words(head) <= most:
                return head
    return tuple(draft(_ROOMS[-1]))


def _leave_room(record: Record) -> int:
    """Return how many words a head may have where what was found, or raised the risk, is to stand
    beside it before what runs."""
    found = (*record.signs, *record.risk.reasons)[:1]
    high = _HIGH_RISK if record.risk.level is RiskLevel.HIGH else ""
    taken = sum(len(text.split()) for text in (*found, high))
    return min(MOST_WORDS, _MOST_BEFORE - _LABEL - taken) if found else MOST_WORDS


def our_head(text: str) -> Head:
    """Return a head of our own words alone."""
    return (_ours(text),)


def plain_head(head: Head) -> str:
    """Return a head as plain text, each name quoted as in JSON."""
    return "".join(_quote(part.text.text) if part.named else part.text.text for part in head)


def count_words(head: Head) -> int:
    """Return how many words people read in a head; an escape is one."""
    pieces = (piece for part in head for piece in part.text.segments)
    return len("".join("⟨⟩" if escape else text for text, escape in pieces).split())


def notice_of(agent: str, head: Head, risk: RiskLevel, ended: str = "") -> str:
    """Return what a notification says, in at most NOTICE_CHARS characters: who asks, and the head;
    first how it `ended`, or that the risk is high."""
    first = ended or (_HIGH_RISK if risk is RiskLevel.HIGH else "")
    said = f"{first} · {_quote_agent(agent)}: " if first else f"{_quote_agent(agent)}: "
    for at, part in enumerate(head):
        more = at + 1 < len(head)
        left = NOTICE_CHARS - len(said) - (2 if more else 0)
        text = _quote(part.text.text) if part.named else part.text.text
        if len(text) > left:
            return f"{said}{_cut_quoted(part, left)} …"
        said += text
    return said


def discreet_notice(agent: str, ended: str, risk: RiskLevel) -> str:
    """Return what a notification says that must tell nothing of what would run."""
    asks = f"{_quote_agent(agent)} asks for approval"
    return f"{ended} · {_quote_agent(agent)}" if ended else f"{asks}, {risk.value} risk"


def _draft(record: Record) -> _Draft:
    request = record.request
    if request.questions:
        asked = [one.text for one in request.questions]
        return lambda room: _say_question(asked, room)
    if record.erased:
        return lambda room: [_name(request.tool, room.words)]
    call = touches_of(record)[0]
    said = _choose(record, call)
    more = [*_surroundings(record, call)]
    if request.payload is not None:
        more.append([_ours(", with a payload")])
    return lambda room: [*said(room), *(part for one in more for part in one)]


def _choose(record: Record, call: Touches) -> _Draft:
    """Return the sentence for this kind of call."""
    if call.nested:
        return lambda room: _say_nested(call, room)
    texts = tuple(one.text for one in call.programs)
    if texts:
        return lambda room: _say_command("\n".join(texts), room)
    if call.family is Family.MESSAGE and (people := _addresses(call)):
        return lambda room: _say_message(call, people, room)
    paths = [one for one in call.paths if not one.looks]
    if paths and call.family is Family.FILE and not _has_second(paths):
        return lambda room: _say_paths(record, call, paths, room)
    return lambda room: _say_call(record, call, room)


def _say_question(asked: Sequence[str], room: Room) -> list[HeadPart]:
    """Say the first question, and how many more there are unless it is whole only without that:
    then it need not be asked again below the head."""
    first = [_ours("Asks "), _name(asked[0], room.words + 2)]
    counted = [first[0], *_some(asked, room.words + 2, 1)]
    cut = first[1].text.text.endswith("…")
    return counted if cut or count_words(tuple(counted)) <= MOST_WORDS else first


# --- commands ---------------------------------------------------------------------------------


def _say_command(text: str, room: Room) -> list[HeadPart]:
    """Say what a command deletes, then what it runs and changes; a short one whole."""
    text = text.strip()
    commands = list_commands(text)
    secrets = [text[start:end] for start, end in secrets_in(text)]
    deleted = [path for one in commands for path in list_deleted(one)]
    changed = _drop_secrets(_list_changed(text, commands), secrets)
    if not text:
        return [_ours("Runs an empty command")]
    simple = "\n" not in text and not deleted
    if simple and (_is_short(text, room) or (len(commands) <= 1 and not changed)):
        return [_ours("Runs "), _name(text, room.words, _WHOLE_CHARS)]
    rest = [one for one in commands if not list_deleted(one) or is_led(one)]
    rest = [one for one in rest if not one[0].startswith("$(")] or rest  # what is in it is listed
    rest = sorted([one for one in rest if not is_idle(one)] or rest, key=rank_command)
    names = _name_commands(rest, list_plain(text), secrets, room)
    if deleted:
        said = [_ours("Deletes "), *_some(_drop_secrets(deleted, secrets), room.words, 1)]
        return [*said, _ours(", runs "), *_some(names, _name_room(room), 1)] if names else said
    if room.words == 1:  # little room: what weighs most of the two
        quiet = changed and not any(map(is_loud, rest))
        return [_ours("Changes "), *_some(changed, 1, 1)] if quiet else _run(text, names, room)
    said = _run(text, names, room)
    return [*said, _ours(", changes "), *_some(changed, room.words, 1)] if changed else said


def _run(text: str, names: Sequence[str], room: Room) -> list[HeadPart]:
    lines = text.count("\n") + 1
    begin = "Runs " if lines == 1 or room.words == 1 else f"Runs {lines} lines: "
    return [_ours(begin), *_some(names, _name_room(room), min(room.words, _MOST_NAMED))]


def _name_room(room: Room) -> int:
    """Return how many words a command may have, which is said whole or by its program."""
    return max(_NAMED_WORDS, room.words)


def _list_changed(text: str, commands: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the paths that a command may change, without the folders to which it only goes."""
    going = {word for one in commands if is_idle(one) for word in one[1:]}
    return [path for path in find_changed_paths(text) if path not in going]


def _drop_secrets(words: Sequence[str], secrets: Sequence[str]) -> list[str]:
    """Return the words of a command that are no part of a secret. What tells that a word is one may
    be another word: the flag before it."""
    return [word for word in words if not any(one in word or word in one for one in secrets)]


def _is_short(text: str, room: Room) -> bool:
    return len(text) <= _WHOLE_CHARS and len(text.split()) <= room.words


def _name_commands(
    commands: Sequence[tuple[str, ...]], plain: Collection[str], secrets: Sequence[str], room: Room
) -> list[str]:
    """Return names of commands, each once, "…" behind those of which more follows. No part of a
    secret is among them."""
    named: dict[str, bool] = {}
    for words in commands:
        name, more = _name_command(words, plain, secrets, room)
        named[name] = named.get(name, False) or more
    kept = set(_drop_secrets(list(named), secrets))
    return [f"{name}…" if more else name for name, more in named.items() if name in kept]


def _name_command(
    words: tuple[str, ...], plain: Collection[str], secrets: Sequence[str], room: Room
) -> tuple[str, bool]:
    """Return the whole command where it finds room and is `plain`, so that nothing of it is hidden;
    else its program, and what it is to do, or an option that destroys, where there is room for the
    word. Then whether that is less than stands there. What it deletes is said already."""
    whole = " ".join(words)
    fits = len(words) <= room.words and len(whole) <= _NAME_CHARS
    secret = len(_drop_secrets(words, secrets)) < len(words)
    if fits and whole in plain and not secret and not list_deleted(words):
        return whole, False
    program = words[0].rstrip("/").rpartition("/")[2] or words[0]
    said = 1
    if room.words >= _ROOM_TO_DO and program in _DOING and _DO.fullmatch("".join(words[1:2])):
        said = 2 if _drop_secrets(words[1:2], secrets) else 1
    named = [program, *words[1:said]]
    option = next(filter(_DESTROYING.fullmatch, words[said:]), "")
    if option and room.words >= _ROOM_TO_DO:
        named.append(option)
    return " ".join(named), len(words) > said or whole not in plain


# --- files, messages, everything else ---------------------------------------------------------


def _say_paths(record: Record, call: Touches, paths: list[PathUse], room: Room) -> list[HeadPart]:
    worst = min((one.effect for one in paths), key=_EFFECTS.index)
    named = list(dict.fromkeys(_say_path(one, call.base) for one in paths if one.effect is worst))
    others = len({one.text for one in paths}) - len(named)
    words = words_of(record.request.tool)
    verb = _VERBS.get(worst)
    if verb is None:
        verb = "Creates" if words & _CREATING else "Changes" if words & _ALTERING else "Writes"
    if worst is PathEffect.UNKNOWN:
        verb = "Touches"
    said = [_ours(f"{verb} "), *_some(named, room.words, 1)]
    if others > 0:
        said.append(_ours(f", touches {others} more"))
    elif verb == "Changes" and len(named) == 1 and (counts := _count_changes(record.arguments)):
        said.append(_ours(f" (+{counts[0]} −{counts[1]})"))  # noqa: RUF001 (the sign of a diff)
    home = components(record.request.context.cwd) if record.request.context.cwd else None
    if home and any(lies_outside(one.text, home, call.base) for one in paths):
        said.append(_ours(", outside its folder"))
    return said


def _count_changes(arguments: dict[str, Any]) -> tuple[int, int] | None:
    """Return how many lines a change of one file adds and takes away, None where that is not
    certain: a switch that is on may have it done many times."""
    if any(value is True for value in arguments.values()):
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


def _say_path(path: PathUse, base: str | None) -> str:
    """Return a path as short as it can be said: from the folder where it runs."""
    home = components(base) if base else None
    if path.parts is None or not home or path.parts[: len(home)] != home:
        return path.text
    return "/".join(path.parts[len(home) :]) or path.text


def _has_second(paths: Sequence[PathUse]) -> bool:
    """Whether one path becomes another, which no verb here says."""
    return any(one.second for one in paths)


def _addresses(call: Touches) -> list[str]:
    """Return to whom a message goes, first who is of another place than most of them."""
    people = [str(one.value) for one in call.with_role(Role.RECIPIENT) if one.value]
    places = Counter(_place_of(one) for one in people)
    usual = max(places, key=places.__getitem__, default="")
    return sorted(people, key=lambda one: _place_of(one) == usual)


def _place_of(address: str) -> str:
    return address.rpartition("@")[2].casefold()


def _say_message(call: Touches, people: list[str], room: Room) -> list[HeadPart]:
    said = [_ours("Message to "), *_some(people, 1, 1)]
    texts = [one for one in call.leaves if isinstance(one.value, str) and one.role is Role.DATA]
    texts = [one for one in texts if not _is_secret(one.name, one.value)]
    texts.sort(key=lambda one: one.name.lower() not in _TITLES)
    return [*said, _ours(": "), _name(str(texts[0].value), min(room.words, 4))] if texts else said


def _say_nested(call: Touches, room: Room) -> list[HeadPart]:
    tools = [one.call.tool for one in call.nested]
    return [_name(call.call.tool, min(room.words, 2)), _ours(" calls "), *_some(tools, 1, 1)]


def _say_call(record: Record, call: Touches, room: Room) -> list[HeadPart]:
    """Say the tool and its short arguments, those first that weigh most."""
    tool = _name(record.request.tool, min(room.words, 3))
    arguments = list(record.arguments.items())
    if not arguments:
        return [tool, _ours(" without arguments")]
    roles = {one.name: one.role for one in reversed(call.leaves)}
    arguments.sort(key=lambda one: _weigh(one[0], one[1], roles.get(one[0])))
    shown = arguments[: room.arguments]
    said = [tool, _ours(": ")]
    for at, (name, value) in enumerate(shown):
        said += [_ours(", ")] if at else []
        said.append(_say_argument(name, value, min(room.words, 3)))
    more = len(arguments) - len(shown)
    return [*said, _ours(f" and {more} more")] if more else said


def _weigh(name: str, value: Any, role: Role | None) -> tuple[bool, int]:
    """Return where an argument comes: short ones first, of them a switch that is on, then as
    _WEIGHT says, last a switch of which everybody knows that it harms nothing."""
    if value is True or (destroys(name) and is_on(value)):
        words = words_of(name)
        return False, len(_WEIGHT) + 1 if words and words <= _HARMLESS else -1
    long = isinstance(value, dict) or len(str(value)) > _MOST_SHORT
    return long, len(_WEIGHT) if role is None else _WEIGHT.get(role, len(_WEIGHT))


def _is_secret(name: str, value: Any) -> bool:
    """Whether a value of this name would be masked, or any part of it."""
    return list(mask({name: value}).values()) != [value]


def _say_argument(name: str, value: Any, room: int) -> HeadPart:
    given = value
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        value = " ".join(value)
    if isinstance(value, dict | list):
        return _name(f"{name}[{len(value)}]", room)
    text = value if isinstance(value, str) else json.dumps(value)
    if _is_secret(name, given):
        masked = _start(f"{name}=", _NAME_CHARS, room)
        return HeadPart(Visible((*masked.segments, (SECRET_NAMED, True)), masked=1), named=True)
    return _name(f"{name}={text}", room)


# --- what stands around a call ----------------------------------------------------------------


def _surroundings(record: Record, call: Touches) -> Iterator[list[HeadPart]]:
    """Yield what changes the meaning of a call: environment, rights, user, a folder of the
    system's."""
    context = record.request.context
    names = [*context.env, *(one.name for one in call.environment if _sets(one))]
    if names:
        names.sort(key=lambda one: not steers(one))
        yield [_ours(", sets "), *_some(names, 1, 1)]
    if call.rights:
        yield [_ours(", with more rights")]
    for user in call.users[:1]:
        yield [_ours(", as "), _name(str(user.value), 1)]
    folder = call.base
    if call.programs and folder and (is_root(folder) or is_systems(folder, folder)):
        yield [_ours(" in "), _name(folder, 1)]


def _sets(leaf: Leaf) -> bool:
    """Whether a leaf sets a variable: an "environment" may be the name of a place, like staging."""
    inside = leaf.address != leaf.name
    return inside or not isinstance(leaf.value, str) or "=" in leaf.value


# --- names ------------------------------------------------------------------------------------


def _some(names: Sequence[str], room: int, most: int) -> list[HeadPart]:
    """Return the first names, and how many more there are."""
    said: list[HeadPart] = [] if names else [_ours("something")]
    for at, name in enumerate(names[:most]):
        said += [_ours(", ")] if at else []
        said.append(_name(name, room))
    more = len(names) - most
    return [*said, _ours(f" and {more} more")] if more > 0 else said


def _name(text: str, room: int, most: int = _NAME_CHARS) -> HeadPart:
    """Return a name from the call in at most so many words and characters."""
    return HeadPart(_start(text, most, room), named=True)


def _start(text: str, most: int, room: int) -> Visible:
    """Return the start of a text on one line, safe to be shown, and "…" where more follows."""
    if _is_path(text) and len(text) > most:
        return render_safe(_shorten(text, most))
    begun = start_of(text, _LOOKED_AT)
    seen = render_safe(begun)
    kept: list[Segment] = []
    whole = begun == text
    for piece, escape in seen.segments:
        said = _short_escape(piece) if escape else _BLANKS.sub(" ", piece)
        part = said if escape else said[: _fit(said, kept, most, room)]
        if _length(kept) + len(part) > most:
            part = ""
        kept.append((part, escape))
        if part != said:
            whole = False
            break
    kept = [*kept, ("…", False)] if not whole else kept
    segments = tuple(one for one in kept if one[0])
    return Visible(segments, seen.hidden, seen.mixed_script, seen.masked)


def _fit(piece: str, kept: list[Segment], most: int, room: int) -> int:
    """Return how many characters of a piece fit behind what is kept, by words and characters."""
    words = "".join(text for text, _ in kept).count(" ") + 1
    left = most - _length(kept)
    for at, char in enumerate(piece):
        if at >= left:
            blank = piece[:at].rfind(" ") if char != " " else at
            return blank if blank > left // 2 else at  # a long word is cut itself
        if char == " " and (words := words + 1) > room and piece[at:].strip():
            return at
    return len(piece)


def _length(kept: list[Segment]) -> int:
    return sum(len(text) for text, _ in kept)


def _is_path(text: str) -> bool:
    return "/" in text and not _BLANKS.search(text) and len(text) <= MAX_PATH


def _shorten(path: str, most: int) -> str:
    """Return the start of a path and its last part, which says more than what is between. Of an
    address's host the end stays: that is whose it is."""
    begin, sign, rest = path.partition("://")
    host = rest.partition("/")[0]
    if sign and len(begin) + len(sign) + len(host) + len("…") > most and not holds_secrets(path):
        return f"{begin}{sign}…{host[len(begin) + len(sign) + 2 - most :]}…"
    last = path.rpartition("/")[2]
    if not last or len(last) > most - 3 or holds_secrets(path):
        return f"{start_of(path, most)}…"
    kept = path[: max(most - len(last) - 2, len(begin) + len(sign) + len(host) if sign else 0)]
    if len(kept) + len(last) + 2 > most:
        return f"{kept}…"
    return f"{kept.rstrip('/')}…/{last}"


def _short_escape(escape: str) -> str:
    return SECRET_NAMED if escape.startswith("⟨secret") else escape.strip()


def _ours(text: str) -> HeadPart:
    return HeadPart(Visible(((text, False),)))


def _quote_agent(agent: str) -> str:
    return _quote(_start(agent, _AGENT_CHARS, 4).text)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _cut_quoted(part: HeadPart, most: int) -> str:
    """Return the start of a name with its quotes, "" where there is no room for one."""
    kept = part.text.text if part.named else ""
    while kept and len(_quote(f"{kept}…")) > most - 2:
        kept = kept[:-1]
    return _quote(f"{kept}…") if kept else ""
