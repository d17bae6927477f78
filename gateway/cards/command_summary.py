"""Summarize a command by its worst effects, and count the other effects. Start reading at
`say_command`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from gateway.domain.redaction import holds_secrets, render_safe, secrets_in, start_of
from gateway.domain.safe_text import Segment, Visible
from gateway.policy.calls.command_effects import Harm, StepEffect, list_effects
from gateway.policy.calls.paths import MAX_PATH
from gateway.policy.calls.script import base_name
from gateway.policy.calls.shell_words import SHELLS, simple_command, strip_wrapper

# The parts of summaries: the gateway's own words, and names from the call, cut to fit.

SECRET_NAMED = "⟨secret⟩"
"""Replaces a secret in a summary."""
NAME_CHARS = 40
_LOOKED_AT = 200  # characters of a name that are read
_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class SummaryPart:
    """A part of a summary: the gateway's words or, if `named`, a name from the call."""

    text: Visible
    named: bool = False


CallSummary = tuple[SummaryPart, ...]


@dataclass(frozen=True, slots=True)
class SummaryLimits:
    """The limits for a summary: `words` in each name, and the number of `arguments`."""

    words: int
    arguments: int


def say_ours(text: str) -> SummaryPart:
    """Return a part with the gateway's own words."""
    return SummaryPart(Visible(((text, False),)))


def say_some(
    names: Sequence[str], room: int, most: int, others: int = 0, chars: int = NAME_CHARS
) -> list[SummaryPart]:
    """Return the first names, and how many more there are, including `others`."""
    said: list[SummaryPart] = [] if names else [say_ours("something")]
    for at, one in enumerate(names[:most]):
        said += [say_ours(", ")] if at else []
        said.append(say_name(one, room, chars))
    more = max(0, len(names) - most) + others
    return [*said, say_ours(f" and {more} more")] if more > 0 else said


def say_name(text: str, room: int, most: int = NAME_CHARS) -> SummaryPart:
    """Return a name from the call, shortened to `room` words and `most` characters."""
    return SummaryPart(cut_start(text, most, room), named=True)


def cut_start(text: str, most: int, room: int) -> Visible:
    """Return the start of a text on one line, safe to show. It ends with "…" if it was
    shortened."""
    if _is_path(text) and len(text) > most:
        return render_safe(shorten(text, most))
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
    """Return how many characters of a piece fit after the text that is already kept. Both words and
    characters are limited."""
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


def shorten(path: str, most: int) -> str:
    """Return the start of a path and its last part. If an address has a long host, keep the end of
    the host, which shows who owns it."""
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


def quote(text: str) -> str:
    """Return a name quoted as in JSON, for plain text."""
    return json.dumps(text, ensure_ascii=False)


_WHOLE_CHARS = 60  # shorter commands are shown whole
_MOST_NAMED = 2  # programs
_NAMED_WORDS = 2  # of each program, where there is little room
_MOST_KEPT = 4
_MOST_KEY = 6  # words that a name must keep, where there is room
_MOST_WORDS = 12
_ROOM_TO_DO = 3
_LONG_WORD = 24
_LOGIN = re.compile(r"(?<=://)[^/@\s]*@")
_RUNS = "Runs"


@dataclass(slots=True)
class _Group:
    """Effects that have the same verb."""

    first: StepEffect
    effects: list[StepEffect] = field(default_factory=list)


def unwrap_script(text: str) -> str:
    """Return the script inside wrappers that only pass it to a shell, such as `bash -lc SCRIPT`."""
    for _ in range(3):
        words = simple_command(text)
        found = strip_wrapper([one.text for one in words]) if words else None
        if found is None or found.script is None or not set(found.names) <= SHELLS:
            break
        text = found.script.strip()
    return text


def say_command(
    text: str, home: str | None, base: str | None, room: SummaryLimits
) -> list[SummaryPart]:
    """Describe the worst effects of a command, and count the others. A short command is shown
    whole."""
    text = unwrap_script(text.strip())
    if not text:
        return [say_ours("Runs an empty command")]
    effects = [one for one in list_effects(text, home, base) if one.verb or one.names]
    busy = [one for one in effects if one.harm is not Harm.IDLE] or effects
    secrets = [text[start:end] for start, end in secrets_in(text)]
    if "\n" not in text and not (busy and _has_own_sentence(busy[0])):
        alone = len(busy) == 1 and _is_plain(busy[0], text, room)
        if _is_short(text, room) or alone or not busy:
            return [say_ours("Runs "), say_name(text, room.words, _WHOLE_CHARS)]
    groups = _group(busy)
    if not groups:
        return [say_ours(f"Runs {text.count(chr(10)) + 1} lines")]
    return _say_groups(groups, text, secrets, room)


def rank_command(text: str, home: str | None, base: str | None) -> Harm:
    """Return the worst harm that a command may do."""
    return next((one.harm for one in list_effects(text, home, base)), Harm.IDLE)


def _has_own_sentence(effect: StepEffect) -> bool:
    """Whether a sentence describes the effect better than the command itself would."""
    return effect.harm <= Harm.DESTROY and effect.verb not in (_RUNS, "Changes")


def _is_plain(effect: StepEffect, text: str, room: SummaryLimits) -> bool:
    """Whether a text is one command whose first words show its effect."""
    needed = max(effect.key, default=0) + 1
    begin = text.split()[: max(needed, 2)]
    begins = (base_name(begin[0]), *begin[1:]) == effect.words[: max(needed, 2)]
    fits = needed == 1 or (needed <= room.words and len(" ".join(begin)) <= _WHOLE_CHARS)
    return effect.verb == _RUNS and begins and fits and not effect.user


def _is_short(text: str, room: SummaryLimits) -> bool:
    return len(text) <= _WHOLE_CHARS and len(text.split()) <= room.words


def _group(effects: Sequence[StepEffect]) -> list[_Group]:
    groups: dict[tuple[str, str, str, str], _Group] = {}
    for one in effects:
        said = (one.verb, one.host, one.user, one.place)
        key = said if one.names or one.words else (*said[:3], f"{one}")
        groups.setdefault(key, _Group(one)).effects.append(one)
    return list(groups.values())


def _say_groups(
    groups: list[_Group], text: str, secrets: Sequence[str], room: SummaryLimits
) -> list[SummaryPart]:
    """Describe the worst group. Describe the second group too if there is room or it is also
    harmful."""
    first, *others = groups
    loud = bool(others) and others[0].first.harm <= Harm.SEND
    counts = [len(_names_of(one, secrets, room)) for one in others]
    # Naming a single one takes fewer words than counting it.
    around = first.first.user or first.first.place
    alone = counts == [1] and first.first.harm is not Harm.RUN_LOADED and not around
    second = others[0] if others and (room.words > _NAMED_WORDS or loud or alone) else None
    left = sum(counts[1 if second else 0 :])
    said = _say_group(first, secrets, room, text=text, others=0 if second else left)
    if second is None:
        return said
    begin, *rest = _say_group(second, secrets, room, others=left, most=1)
    verb = begin.text.text
    return [*said, say_ours(f", {verb[:1].lower()}{verb[1:]}"), *rest]


def _say_group(
    group: _Group,
    secrets: Sequence[str],
    room: SummaryLimits,
    *,
    text: str = "",
    others: int,
    most: int = 0,
) -> list[SummaryPart]:
    effect, names = group.first, _names_of(group, secrets, room)
    tail = _say_surroundings(effect)
    if effect.harm is Harm.RUN_LOADED:
        return [*_say_loaded(effect, names, room, tail), *_count(len(group.effects) - 1 + others)]
    if not effect.verb:
        return [say_ours(f"Runs a script that {effect.names[0]}"), *tail]
    if effect.verb != _RUNS and not names:
        something = " something" if effect.verb == "Deletes" else ""
        what = say_ours("Sends data" if effect.host else f"{effect.verb}{something}")
        return [what, *_say_host(effect), *tail, *_count(others)]
    begin = f"{effect.verb} " if effect.verb[-1:] != " " else effect.verb
    lines = text.count("\n") + 1
    if effect.verb == _RUNS and lines > 1 and room.words > _NAMED_WORDS:
        begin = f"Runs {lines} lines: "
    code = begin[-2] == ":" and effect.verb != _RUNS
    words = max(_NAMED_WORDS, room.words) if code else room.words
    words = _MOST_WORDS if effect.verb == _RUNS else words  # its words are chosen already
    several = effect.verb == _RUNS and room.words > _NAMED_WORDS
    most = most or (_MOST_NAMED if several else 1)
    chars = _WHOLE_CHARS if several else NAME_CHARS
    said = say_some(names, words, most, 0 if effect.host else others, chars)
    counted = _count(others if effect.host else 0)
    return [say_ours(begin), *said, *_say_host(effect), *tail, *counted]


def _count(others: int) -> list[SummaryPart]:
    return [say_ours(f" and {others} more")] if others else []


def _say_loaded(
    effect: StepEffect, names: Sequence[str], room: SummaryLimits, tail: Sequence[SummaryPart]
) -> list[SummaryPart]:
    if not effect.host:
        return [say_ours("Runs what "), say_name(names[0] if names else "it", 1),
                say_ours(" decodes"), *tail]  # fmt: skip
    if room.words < _ROOM_TO_DO:
        address = "/".join((effect.host, *names))
        return [say_ours("Downloads "), say_name(address, 1), say_ours(", runs it"), *tail]
    what = [say_name(names[0], 1), say_ours(" ")] if names else []
    return [say_ours("Downloads "), *what, say_ours("from "), say_name(effect.host, 1),
            say_ours(" and runs it"), *tail]  # fmt: skip


def _say_host(effect: StepEffect) -> list[SummaryPart]:
    return [say_ours(" to "), say_name(effect.host, 1)] if effect.host else []


def _say_surroundings(effect: StepEffect) -> list[SummaryPart]:
    """Return on which machine and as which user the command runs, in words."""
    said: list[SummaryPart] = []
    if effect.place:
        where, _, name = effect.place.partition(" ")
        said += [say_ours(f" {where} "), say_name(name, 1)]
    if effect.user == "root":
        said.append(say_ours(" as root"))
    elif effect.user:
        said += [say_ours(" as "), say_name(effect.user, 1)]
    return said


# ---------------------------------------------------------------- names


def _names_of(group: _Group, secrets: Sequence[str], room: SummaryLimits) -> list[str]:
    """Return the names of a group, without duplicates and secrets. "…" marks shortened names."""
    if not group.first.verb:
        return []
    if group.first.verb != _RUNS or group.first.names:
        found = [_LOGIN.sub("", name) for one in group.effects for name in one.names]
        # A name that has a secret by its own shape is shown with its mask.
        open_names = set(_drop_secrets(found, secrets))
        kept = (one for one in found if one in open_names or next(secrets_in(one), None))
        return list(dict.fromkeys(kept))
    named: dict[str, bool] = {}
    for at, effect in enumerate(group.effects):
        roomy = at == 0 and room.words > 1 and room.arguments > 1
        most = _MOST_KEPT if roomy else min(room.words, _NAMED_WORDS)
        name, more = _name_step(effect, secrets, room, most)
        named[name] = named.get(name, False) or more
    return [f"{name}…" if more else name for name, more in named.items()]


def _name_step(
    effect: StepEffect, secrets: Sequence[str], room: SummaryLimits, most: int
) -> tuple[str, bool]:
    """Return a name for a step of a command, and whether the name leaves something out.

    The name is the whole command if that fits and shows the effect. Otherwise it is the program and
    the important words.
    """
    words = tuple(one.replace("$()", "$(…)") for one in effect.words)
    whole = " ".join(words)
    fits = len(words) <= room.words and len(whole) <= NAME_CHARS
    open_words = set(_drop_secrets(words, secrets))
    if fits and effect.whole and open_words >= set(words):
        return whole, False
    roomy = most == _MOST_KEPT and room.words > _NAMED_WORDS
    limit = _WHOLE_CHARS if roomy else NAME_CHARS
    key = [at for at in effect.key if words[at] in open_words][: _MOST_KEY if roomy else _MOST_KEPT]
    while len(key) > 1 and _count_chars(key, words) > limit:
        key.pop()
    key = _fill(key, [at for at, one in enumerate(words) if one in open_words], words, most)
    name, before = "", -1
    for at in sorted(key or [0]):
        gap = "" if at == 0 else " " if at == before + 1 else "… "
        begun = name.removesuffix("…") if gap == "… " else name
        name = f"{begun}{gap}{_shorten_word(words[at])}"
        before = at
    cut = before + 1 < len(words) or not effect.whole
    return name.removesuffix("…"), cut or name.endswith("…")


def _fill(
    key: Sequence[int], open_words: Sequence[int], words: Sequence[str], most: int
) -> list[int]:
    """Return the positions of the words that a name keeps: key words and the words after them, up
    to `most`."""
    kept = sorted(key or [0])
    begins = kept == [0]
    for at in open_words:
        if at - 1 not in kept or (words[at][:1] == "-" and not begins):
            continue
        more = sorted({*kept, at})
        if len(kept) < most and _count_chars(more, words) <= NAME_CHARS:
            kept = more
    return kept


def _count_chars(positions: Sequence[int], words: Sequence[str]) -> int:
    return sum(len(_shorten_word(words[one])) + 2 for one in positions) - 2


def _shorten_word(word: str) -> str:
    if len(word) <= _LONG_WORD:
        return word
    option, equals, value = word.partition("=")
    if equals and option[:1] == "-":
        return f"…{_shorten_word(value)}"
    return shorten(word, _LONG_WORD) if "/" in word else f"{start_of(word, _LONG_WORD)}…"


def _drop_secrets(words: Sequence[str], secrets: Sequence[str]) -> list[str]:
    """Return the words without secrets. An earlier word, such as a flag, may show that a word is a
    secret."""
    return [word for word in words if not any(one in word or word in one for one in secrets)]
