"""Decide which parts of a call a grant may leave open. Start reading at `why_fixed` and `is_open`.

The same conditions apply to the call that an offer comes from and to each call that it covers. If a
call is not understood, no part of it may stay open.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote_plus

from gateway.domain.records import StoredRequest
from gateway.domain.redaction import holds_secrets, quote_start
from gateway.domain.safe_text import make_visible
from gateway.models import Kind
from gateway.policy.calls.argument_roles import (
    COMMANDS,
    PATHS,
    Family,
    JsonType,
    RoleSource,
    bare_name,
    begins_as_lookup,
    is_lookup,
    looks_like,
    plain_name,
    verbs_of_file_tool,
    words_of,
)
from gateway.policy.calls.call_effects import CallEffects, Leaf
from gateway.policy.calls.known_commands import Operands, ParsedCommand, entry, origins_of
from gateway.policy.calls.paths import (
    PathEffect,
    PathUse,
    below,
    components,
    delicate,
    is_executed,
    is_root,
    is_systems,
)
from gateway.policy.calls.shell_words import Word, simple_command
from gateway.policy.grants.grant import Answer, CommandPattern
from gateway.wire.roles import Role

# Messages to people: the only calls whose text may vary without a declaration.
#
# All lists here are of what is permitted. If the tool, an argument or an address is unknown, the
# text is part of the action, and must be the same each time.

# Roles in a message beside its text; the words name them, and they stay the same each time.
_BESIDE = frozenset({Role.RECIPIENT, Role.ID, Role.DATA})
_ADDRESSES = frozenset(
    {"to", "channel", "channelid", "channelname", "chatid", "email", "issue", "issueid",
     "issuekey", "issuenumber", "number", "prnumber", "pullnumber", "recipient", "recipients",
     "repo", "repository", "room", "roomid", "ticket", "ticketid"}
)  # fmt: skip
# A channel, a chat's id, an e-mail address, an issue by its key or number, a repository.
_KNOWN_FORM = re.compile(
    r"#[\w.-]{1,80}|[CGD][A-Z0-9]{8,20}|-?[0-9]{1,20}"
    r"|[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
    r"|[A-Z][A-Z0-9]{1,10}-[0-9]{1,9}"
)
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}")
# Only texts with these names may have several lines; any other may get into a header.
_OF_MANY_LINES = frozenset(
    {"body", "comment", "content", "contents", "description", "message", "note", "text"}
)
# Character codes that a header decodes to a line end, or to another text.
_ENCODED = re.compile(r"%0[ad]|=\?", re.IGNORECASE)
_EMAIL = re.compile(
    r"(?<![\w.%+@-])[A-Za-z0-9](?:[\w.%+-]{0,62}[A-Za-z0-9])?"
    r"@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}(?![\w@/])",
    re.ASCII,
)
# A mention, but not the at sign or `<` of a measure, nor a link in `<…>`.
_MENTION = re.compile(r"@(?!\s|$)|<(?![\s\d=]|$|https?://)|\[~|tg://", re.IGNORECASE)
# Characters before the first word of a line: blanks, quotes, brackets, a list marker.
_LEAD = re.compile(
    r"(?:\[[xX]\]|\s|[\"'`\u2018-\u201f\u00ab\u00bb*_(\[{>|)\]}]"
    r"|[-+\u2013\u2014\u2022#]+(?=\s|$)|[0-9]{1,3}[.)]\s)*"
)
_FIRST = re.compile(r"\w|[^\x00-\x7f]|[<,=@]|\.\.\.|:(?!\w)|-+$|$")
# Commands to bots, as a whole line or at its beginning.
_TOLD = re.compile(
    r"(?:approved?|deploy(?: \w+)?|lgtm|merge(?: (?:it|this))?|queue|rebase|recheck|release"
    r"|rerun|retest|retry|run tests?|ship ?it|try)\W*$"
    r"|(?:ok(?:ay)? to test|(?:re)?test this|add to (?:allow|white)list|r[+-]|r=|delegate[+=])"
    r"|(?:atlantis|digger|pre-commit\.ci|terrateam"
    r"|bors|claude|codex|copilot|cursor|dependabot|devin|homu|hubot|jenkins|mergify(?:io)?"
    r"|renovate|rultor)\b",
    re.IGNORECASE,
)
# Commands that some bots find anywhere in a text.
_TOLD_ANYWHERE = re.compile(
    r"\bok(?:ay)? to test\b|\bre?test this\b|\badd to (?:allow|white)list\b|\bhereby sign\b",
    re.IGNORECASE,
)
_MESSAGE_IDS = frozenset({"inreplyto", "messageid", "messagets", "replyto"})


def is_message(effects: CallEffects) -> bool:
    """Return whether a call is a message to people, with addresses of a known kind."""
    if effects.call.kind is not Kind.TOOL or effects.family is not Family.MESSAGE:
        return False
    known = all(one.role in _BESIDE or _is_id(one) for one in effects.leaves)
    return known and any(
        plain_name(one.name) in _ADDRESSES and _is_address(one) for one in effects.leaves
    )


def is_message_text(name: str, value: Any) -> bool:
    """Return whether a value with this name is text for people only.

    Such a text mentions nobody, commands no bot, contains no secret, and is not a path, URL or
    flag. It has one line, unless its name permits more."""
    if not isinstance(value, str) or not _has_plain_lines(name, value):
        return False
    if holds_secrets(value) or any(map(_calls, (value, html.unescape(value)))):
        return False
    return looks_like(value) is None and not (value[:1] == "-" and len(value.split()) == 1)


def _has_plain_lines(name: str, value: str) -> bool:
    many = plain_name(name) in _OF_MANY_LINES
    if not many and _ENCODED.search(value):
        return False
    rest = value.replace("\r\n", "\n").replace("\n", "").replace("\t", "") if many else value
    return not any(unicodedata.category(one) in ("Cc", "Zl", "Zp") for one in rest)


def _calls(text: str) -> bool:
    """Return whether a text, in any spelling, mentions somebody or may be a command to a bot."""
    text = unicodedata.normalize("NFKC", text)
    text = "".join(one for one in text if unicodedata.category(one) != "Cf")
    return _MENTION.search(_EMAIL.sub("", text)) is not None or any(
        map(_tells_bot, text.splitlines())
    )


def _tells_bot(line: str) -> bool:
    if _TOLD_ANYWHERE.search(line):
        return True
    lead = _LEAD.match(line)
    begin = lead.end() if lead else 0
    return _FIRST.match(line, begin) is None or _TOLD.match(line, begin) is not None


def _is_id(leaf: Leaf) -> bool:
    return plain_name(leaf.name) in _MESSAGE_IDS and not isinstance(leaf.value, dict | list)


def _is_address(leaf: Leaf) -> bool:
    form = _REPOSITORY if plain_name(leaf.name) in ("repo", "repository") else _KNOWN_FORM
    return type(leaf.value) in (int, str) and form.fullmatch(str(leaf.value)) is not None


DECLARED = frozenset({RoleSource.OPERATOR, RoleSource.AUTHOR, RoleSource.TABLE})
_LONGEST_PLACE = 60  # characters
_MAX_DEPTH = 16
_PLAIN_ROLES = frozenset({Role.FLAG, Role.ID, Role.UNKNOWN})
_TYPED = frozenset({Role.ACTION, Role.INPUT, Role.NESTED})
_CONTAINERS = (JsonType.LIST, JsonType.OBJECT)
_MOST_LETTERS = 60
_PLAIN = re.compile(r"[^\W_]+(?:[ -][^\W_]+)*")
# Another page or file, in a question about one.
_PLACES = re.compile(r"\w+:/|//|(?<!\S)[~.]{0,2}/\S")
# A branch, a commit, a state or an owner: without `..` or a host's name.
_NAME_OF_PART = re.compile(r"(?!.*(?:\.\.|//))[A-Za-z0-9][A-Za-z0-9_.:/-]{0,99}")
_FACTS = frozenset(
    {"city", "country", "currency", "date", "day", "days", "from_date", "lang", "language", "limit",
     "locale", "month", "page", "page_size", "region", "symbol", "ticker", "timezone", "to_date",
     "unit", "units", "year", "zip", "zipcode"}
)  # fmt: skip
_FACT_NAMES = frozenset(map(plain_name, _FACTS))


def why_fixed(answer: Answer, record: StoredRequest, effects: CallEffects) -> str | None:
    """Return why, with this answer, no part of a call can stay open; None if a part can."""
    return _why_nothing(record, effects) or _CONDITIONS[answer](record, effects)


def is_open(answer: Answer, leaf: Leaf) -> bool:
    """Return whether an answer lets a value vary to which no rule applies."""
    if leaf.type in _CONTAINERS and leaf.value and answer is not Answer.TOOL:
        return False
    opens = _OPENS.get(answer)
    return leaf.free if opens is None else opens(leaf)


def _varies_in_folder(leaf: Leaf) -> bool:
    climbs = leaf.role is Role.PART and ".." in str(leaf.value).split("/")
    return (leaf.free and not climbs) or leaf.role is Role.PATCH


def _varies_in_text(leaf: Leaf) -> bool:
    data = leaf.role is Role.DATA
    return is_message_text(leaf.name, leaf.value) if data else leaf.free


def may_come(answer: Answer, leaf: Leaf) -> bool:
    """Return whether a call may have this value although the call that the grant was made from had
    none."""
    if answer is Answer.TOOL:
        return leaf.source in DECLARED and _varies_in_tool(leaf)
    if answer is Answer.SOURCE:
        read = leaf.role is not Role.ACTION and leaf.source in DECLARED
        return read and _varies_in_source(leaf)
    if answer is Answer.VALUES or not leaf.optional:
        return False
    if leaf.role is Role.REMARK:
        return True
    plain = not isinstance(leaf.value, str) or leaf.source in (RoleSource.TABLE, RoleSource.NAME)
    return plain and looks_like(leaf.value) is None


def command_leaf(effects: CallEffects) -> Leaf | None:
    """Return the command of a call, or None if it does not have exactly one."""
    found = effects.with_role(*COMMANDS)
    return found[0] if len(found) == 1 else None


def path_leaf(effects: CallEffects) -> Leaf | None:
    """Return the path of a call, or None if it does not have exactly one."""
    found = effects.with_role(*PATHS)
    return found[0] if len(found) == 1 else None


def patch_leaf(effects: CallEffects) -> Leaf | None:
    """Return the patch of a call if all its other values are remarks, else None."""
    patches = effects.with_role(Role.PATCH)
    beside = [one for one in effects.leaves if one.role not in (Role.PATCH, Role.REMARK)]
    return patches[0] if len(patches) == 1 and not beside else None


def path_of(effects: CallEffects, leaf: Leaf) -> PathUse | None:
    """Return how the call uses the path in a value, or None if unknown."""
    return next((one for one in effects.paths if one.place == leaf.place and not one.looks), None)


def is_delicate(effects: CallEffects, use: PathUse) -> bool:
    """Return whether this use of a path always requires approval."""
    written = may_write(effects, use)
    if written and is_executed(use.text):
        return True
    if use.delicate is None:
        return False
    absolute = use.absolute
    return written or absolute is None or delicate(absolute, written=False) is not None


def may_write(effects: CallEffects, use: PathUse) -> bool:
    """Return whether a call may write to a path. A tool that opens a file counts, because it may
    write it."""
    read = use.effect in (PathEffect.READ, PathEffect.LIST)
    return not read or "open" in words_of(bare_name(effects.call.tool))


def is_systems_folder(folder: str) -> bool:
    """Return whether a folder is the root or a system folder."""
    return is_root(folder) or is_systems(f"{folder}/x", "/")


def legible(value: Any, depth: int = 0) -> bool:
    """Return whether no text in a value is hidden, reordered or easily mistaken for other text."""
    if isinstance(value, str):
        seen = make_visible(value)
        return not seen.hidden and not seen.mixed_script
    if depth > _MAX_DEPTH:
        return False
    if isinstance(value, dict):
        return all(legible(item, depth + 1) for pair in value.items() for item in pair)
    return not isinstance(value, list) or all(legible(item, depth + 1) for item in value)


# ---------------------------------------------------------------- each answer's conditions


def _why_nothing(record: StoredRequest, effects: CallEffects) -> str | None:
    """Return why no part of a call can stay open, whatever the answer; None if a part can."""
    context = record.request.context
    if context.env or effects.environment:
        return "it changes environment variables"
    if record.request.payload is not None:
        return "it carries a payload"
    if effects.rights:
        return f"{_quote(effects.rights[0])} asks for more rights"
    if any(str(one.value).strip().lower() in ("root", "0") for one in effects.users):
        return "it runs as root"
    return _why_unclear(effects)


def _why_unclear(effects: CallEffects) -> str | None:
    """Return which part of a call is unclear or hidden, or why its folder always requires approval.
    None if neither applies."""
    if effects.nested:
        return "it contains another call"
    if effects.uncertainties:
        return effects.uncertainties[0].words
    if not legible([effects.call.tool, *(part for one in effects.leaves
                                         for part in (one.address, one.value))]):  # fmt: skip
        return "its text hides something"
    base = effects.base
    if base is not None and (components(base) is None or delicate(base) is not None):
        return "its folder may hold secrets, or files that run later"
    return None


def _why_no_command(record: StoredRequest, effects: CallEffects) -> str | None:
    leaf = command_leaf(effects)
    if leaf is None or effects.foreign_shell:
        return "it is not one command of a known shell"
    if effects.base is not None and is_systems_folder(effects.base):
        return "it runs in a system folder"
    beside = [one for one in effects.leaves if one is not leaf]
    return _why_not_beside(effects, leaf, beside, PATHS | {Role.PATCH})


def _why_no_folder(record: StoredRequest, effects: CallEffects) -> str | None:
    if patch_leaf(effects) is not None:
        return None if record.request.kind is Kind.FILE_CHANGE else "it is not a file change"
    return _why_no_file(record, effects)


def _why_no_file(record: StoredRequest, effects: CallEffects) -> str | None:
    leaf = path_leaf(effects)
    use = path_of(effects, leaf) if leaf is not None else None
    if leaf is None or use is None or record.request.kind in (Kind.COMMAND, Kind.PLAN):
        return "it does not work on one file"
    if effects.family is not Family.FILE and leaf.source not in DECLARED:
        return "its tool is not known to work on files"
    if not _is_reading_or_writing(effects, leaf, use):
        return "it may delete, move or link"
    beside = [one for one in effects.leaves if one is not leaf]
    if any(one.role is Role.PATCH and not isinstance(one.value, str) for one in beside):
        return "its patch is not understood"
    named = [one for one in effects.paths if one.place != leaf.place and not one.looks]
    if named:
        return "it names a second path"
    return _why_not_beside(effects, leaf, beside, COMMANDS | {Role.URL})


def _is_reading_or_writing(effects: CallEffects, leaf: Leaf, use: PathUse) -> bool:
    if leaf.role in (Role.DELETE, Role.DESTINATION) or use.effect is PathEffect.DELETE:
        return False
    if use.effect is not PathEffect.UNKNOWN:
        return True
    known = {Role.FLAG} & {one.role for one in effects.leaves}
    verbs = verbs_of_file_tool(bare_name(effects.call.tool))
    return leaf.role is Role.PATH and not known and not verbs & {"move", "delete"}


def _why_no_text(record: StoredRequest, effects: CallEffects) -> str | None:
    free = [one for one in effects.leaves if one.role in (Role.DATA, Role.PART)]
    if record.request.kind is not Kind.TOOL:
        return "it is not a message"
    if not is_message(effects):
        if not free or not all(one.source in DECLARED for one in free):
            return "it is not a message to people at a known address"
        if effects.family is Family.MESSAGE and any(one.source is RoleSource.TABLE for one in free):
            return "its address is not known as one of people"
    if effects.base_source != "context" and is_systems_folder(effects.base or "/"):
        return "it works in a system folder"
    return _why_not_beside(effects, None, list(effects.leaves),
                           COMMANDS | PATHS | {Role.PATCH, Role.URL})  # fmt: skip


def _why_not_beside(
    effects: CallEffects, leaf: Leaf | None, beside: list[Leaf], more: frozenset[Role]
) -> str | None:
    """Return which other value of the call prevents the value `leaf` from varying, or None if none
    does."""
    for one in beside:
        if one.role in _TYPED or one.role in more:
            return f"{_quote(one)} is {one.role.value.replace('_', ' ')}"
        unclear = one.type in _CONTAINERS and bool(one.value)
        if one.role is Role.UNKNOWN and (unclear or looks_like(one.value)):
            return f"{_quote(one)} is not understood"
    fixed = {one.place for one in beside if not one.free}
    if any(one.place not in fixed for one in effects.readings):
        return "it can be read in several ways"
    return None


def _why_no_values(record: StoredRequest, effects: CallEffects) -> str | None:
    request = record.request
    if request.kind is not Kind.TOOL:
        return "it is not a lookup"
    if not is_lookup(request.tool) or not effects.leaves:
        return "its name is not that of a lookup"
    for one in effects.leaves:
        if plain_name(one.name) not in _FACT_NAMES or one.place != one.name:
            return f"{_quote(one)} is not known as a plain fact"
        if one.source in DECLARED or not _is_plain_value(one.value):
            return f"{_quote(one)} is not a plain value"
    return None


def _why_no_source(record: StoredRequest, effects: CallEffects) -> str | None:
    """Return why a call is not known to read from a single host or repository; None if it is
    known."""
    if record.request.kind is not Kind.TOOL:
        return "it is not a lookup"
    unknown = next((one for one in effects.leaves if one.source not in DECLARED), None)
    if unknown is not None:
        return f"{_quote(unknown)} is not declared"
    fixed = [one for one in effects.leaves if not _varies_in_source(one)]
    urls = [one for one in fixed if one.role is Role.URL]
    if urls:
        use = next((one for one in effects.urls if one.place == urls[0].place), None)
        known = len(fixed) == 1 and use is not None and use.scheme == "https"
        known = known and not any(map(holds_secrets, _spellings(str(urls[0].value))))
        return (
            None if known and use is not None and use.uncertainty is None else "its URL is unclear"
        )
    listed = all(one.source is RoleSource.TABLE for one in effects.leaves)
    if not (is_lookup(effects.call.tool) or (listed and begins_as_lookup(effects.call.tool))):
        return "its name is not that of a lookup"
    if not {"owner", "repo"} <= {plain_name(one.name) for one in fixed}:
        return "it names no repository"
    other = next((one for one in fixed if one.role is not Role.RECIPIENT), None)
    return f"{_quote(other)} is {other.role.value}" if other is not None else None


def _spellings(url: str) -> tuple[str, ...]:
    """Return a URL, the URL decoded, and the decoded URL with its parts joined."""
    undone = unquote_plus(url)
    return url, undone, re.sub(r"[&?/]\w*=?", "", undone)


def _varies_in_source(leaf: Leaf) -> bool:
    """Return whether a value selects what is read from a service, but not from which service."""
    if leaf.place != leaf.name or isinstance(leaf.value, dict | list):
        return False
    if leaf.role in (Role.PATH, Role.READ, Role.FOLDER):
        text = str(leaf.value)
        return below(text) and delicate(text, written=False) is None
    if leaf.role is Role.ACTION:  # a question to a model about a page
        said = leaf.value if leaf.source is RoleSource.TABLE else None
        plain = is_message_text("message", said)
        return plain and not _PLACES.search(str(said))
    named = not isinstance(leaf.value, str) or _NAME_OF_PART.fullmatch(leaf.value) is not None
    return leaf.role in (Role.ID, Role.PART, Role.FLAG) and named


def _why_no_tool(record: StoredRequest, effects: CallEffects) -> str | None:
    if record.request.kind is not Kind.TOOL or not effects.harmless:
        return "its tool is not declared harmless"
    risky = next((one for one in effects.leaves if _is_risky(one)), None)
    if risky is not None:
        return f"{_quote(risky)} names a path, an address or something delicate"
    files = record.request.context.files
    if any(is_delicate(effects, one) for one in effects.all_paths()) or any(map(delicate, files)):
        return "it names something delicate"
    return None


def _is_risky(leaf: Leaf) -> bool:
    """Return whether a value, such as a path, makes even a harmless tool require approval."""
    if leaf.role is Role.DATA and leaf.source in DECLARED:
        return isinstance(leaf.value, str) and delicate(leaf.value) is not None
    held = leaf.role in COMMANDS | PATHS | {Role.USER, Role.RIGHTS, Role.ENVIRONMENT}
    declared = leaf.source in DECLARED
    return (held and not declared) or looks_like(leaf.value) is not None


def _varies_in_tool(leaf: Leaf) -> bool:
    """Return whether this value of a harmless tool may vary. A recipient never may, nor a value
    with effects beyond its own argument."""
    if _is_risky(leaf):
        return False
    if leaf.free:
        return True
    if leaf.source not in DECLARED:
        return leaf.role in _PLAIN_ROLES
    own = leaf.address.removesuffix("[]") == leaf.name
    plain = leaf.value in (None, [], {}) or leaf.type is JsonType.BOOLEAN
    return (
        own and leaf.role in _PLAIN_ROLES | {Role.AMOUNT} and (plain or _is_plain_value(leaf.value))
    )


def _quote(leaf: Leaf) -> str:
    return quote_start(leaf.place, _LONGEST_PLACE)


def _is_plain_value(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _MOST_LETTERS and _PLAIN.fullmatch(value) is not None
    return type(value) in (int, float) and abs(value) < 10**12


_OPENS: dict[Answer, Callable[[Leaf], bool]] = {
    Answer.FOLDER: _varies_in_folder,
    Answer.TEXT: _varies_in_text,
    Answer.VALUES: lambda leaf: _is_plain_value(leaf.value),
    Answer.SOURCE: _varies_in_source,
    Answer.TOOL: _varies_in_tool,
}
_CONDITIONS: dict[Answer, Callable[[StoredRequest, CallEffects], str | None]] = {
    Answer.COMMAND: _why_no_command,
    Answer.FOLDER: _why_no_folder,
    Answer.TEXT: _why_no_text,
    Answer.VALUES: _why_no_values,
    Answer.SOURCE: _why_no_source,
    Answer.TOOL: _why_no_tool,
}


# Command patterns from the commands that operators write in rules.


def fixed_words(reading: ParsedCommand) -> tuple[str, ...]:
    """Return the operands of a command that must be the same each time: its words, or the local
    services that they name."""
    if reading.known.operands is Operands.LOCAL:
        return origins_of(reading)
    return reading.operands if reading.known.operands is Operands.FIXED else ()


def derive_allow_pattern(text: str, folder: str | None) -> CommandPattern | None:
    """Return the pattern of a known command, with all its harmless flags and those that are
    written. Return None if the command is unknown, or has operands that are not part of its
    pattern.

    None if the command is unknown, or has operands that are not part of its pattern.
    """
    words = simple_command(text)
    known = entry(words) if words else None
    if words is None or known is None:
        return None
    rest = tuple(word.text for word in words[1 + len(known.verbs) :])
    written = tuple(word for word in rest if word.startswith("-"))
    fixed = tuple(word for word in rest if not word.startswith("-"))
    if any(flag not in known.flags or known.flags[flag].value for flag in written):
        return None
    if known.operands is Operands.LOCAL or (fixed and known.operands is not Operands.FIXED):
        return None
    return CommandPattern(
        program=known.program,
        verbs=known.verbs,
        flags=tuple(sorted({*known.harmless, *written})),
        needs=known.list_restraints(written),
        operands=known.operands,
        words=fixed,
        folder=folder,
    )


def derive_deny_pattern(text: str) -> CommandPattern | None:
    """Return the pattern of commands with this start, whatever follows, or None if the command is
    not plain."""
    words = simple_command(text)
    if words is None:
        return None
    verbs = tuple(word.text for word in words[1:] if not word.text.startswith("-"))
    return CommandPattern(program=words[0].text, verbs=verbs, flags=_flags(words))


def denial(words: tuple[Word, ...], *, flags: bool) -> CommandPattern:
    """Return a deny pattern for a program and its verbs; with `flags`, also for its flags."""
    known = entry(words)
    return CommandPattern(
        program=words[0].text,
        verbs=known.verbs if known is not None else (),
        flags=_flags(words) if flags else (),
    )


def _flags(words: tuple[Word, ...]) -> tuple[str, ...]:
    flags = (word.text for word in words[1:] if word.text.startswith("-"))
    return tuple(sorted({one for text in flags for one in _single(text)}))


def _single(flag: str) -> list[str]:
    """Return the letters of a flag such as `-rf`, each as a flag; a long name stays unchanged."""
    name = flag.partition("=")[0]
    return [name] if name.startswith("--") else [f"-{letter}" for letter in name[1:]]
