"""Find the worst effect of code or SQL with simple patterns, and the files that a patch names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise
from shlex import join

_MOST_TEXT = 20_000
_MOST_SNIPPET = 80
LANGUAGES = {
    **dict.fromkeys(("python", "python2", "python3", "ipython", "pypy3"), "Python"),
    **dict.fromkeys(("bun", "deno", "node", "ts-node", "tsx"), "JavaScript"),
    "lua": "Lua", "osascript": "AppleScript", "perl": "Perl", "php": "PHP", "ruby": "Ruby",
    "tclsh": "Tcl", "awk": "awk", "gawk": "awk", "mawk": "awk",
}  # fmt: skip
"""The language of the code that an interpreter runs."""


class CodeHarm(IntEnum):
    """How harmful code is, the worst first."""

    DESTROY = 0
    RUN = 1
    SEND = 2
    CHANGE = 3
    LOOK = 4


@dataclass(frozen=True, slots=True)
class CodeEffect:
    """The worst effect of code or SQL. For code, `text` is the code itself. For SQL, `text` is the
    object of `verb`, and `more` counts the other statements."""

    harm: CodeHarm
    text: str
    verb: str = ""
    more: int = 0


_CALLS = (
    (CodeHarm.DESTROY, re.compile(
        r"\bshutil\.rmtree|\brmtree\s*\(|\bos\.(?:remove|removedirs|rmdir|truncate|unlink)\b"
        r"|\bfrom\s+os\s+import\s[^\n;]{0,100}\b(?:remove|removedirs|rmdir|unlink)\b"
        r"|\bPath\([^()\n]{0,100}\)\.(?:rmdir|unlink)|\.(?:unlink|rmdir|rmtree)\s*\("
        r"|\b(?:rm|rmdir|unlink)(?:Sync)?\s*\(|\b(?:fs|fsPromises|promises)\.(?:rm|rmdir|truncate|unlink)\w*"
        r"|\bFileUtils\.(?:remove|rm)\w*|\bFile\.(?:delete|unlink)|\bDir\.(?:delete|rmdir|unlink)"
        r"|\bunlink\b|\b(?:remove_tree|rmtree)\b|\bdrop(?:Database|_database|_all|_collection)?\s*\("
        r"|\bflush(?:all|db)\b|\bdelete(?:Many|_many)\s*\(|\bDeno\.remove\w*", re.IGNORECASE)),
    (CodeHarm.DESTROY, re.compile(
        r"\b(?:drop\s+(?:table|database|schema|view)|truncate\s+(?:table\s+)?\w|delete\s+from)\b",
        re.IGNORECASE)),
    (CodeHarm.RUN, re.compile(
        r"\bos\.(?:exec\w*|popen|spawn\w*|startfile|system)\b|\bsubprocess\.\w+"
        r"|\bpty\.spawn|\bchild_process\b(?![\"'`])|\b(?:exec|execFile|spawn|fork)(?:Sync)\s*\("
        r"|\bspawn\s*\(|\b(?:shell_exec|passthru|proc_open|popen|system)\s*\(?|%x[({\[]"
        r"|\b(?:eval|exec|compile)\s*\(|\b__import__|\bDeno\.(?:run|Command)|\bimportlib\b",
        re.IGNORECASE)),
    (CodeHarm.SEND, re.compile(
        r"\brequests\.\w+|\burllib\b|\burlopen|\bhttpx\.\w+|\bhttp\.client|\bsocket\.\w+"
        r"|\bfetch\s*\(|\baxios\b|\bsmtplib|\bftplib|\bparamiko|\bNet::HTTP|\bIO::Socket|\bLWP::",
        re.IGNORECASE)),
    (CodeHarm.CHANGE, re.compile(
        r"\bopen\s*\([^()\n]{1,120},\s*(?:mode\s*=\s*)?[\"'][^\"'\n]{0,2}[wax+]|\.write_(?:bytes|text)\s*\("
        r"|\b(?:append|copy|link|rename|symlink|write)File(?:Sync)?\s*\(|\bfile_put_contents"
        r"|\bFile\.write|\bshutil\.(?:copy\w*|move)|\bos\.(?:chmod|chown|link|rename|replace|symlink)\b"
        r"|\bchmod(?:Sync)?\s*\(|\brename(?:Sync)?\s*\(", re.IGNORECASE)),
)  # fmt: skip


@lru_cache(maxsize=512)
def find_in_code(text: str) -> CodeEffect | None:
    """Return the worst effect of code and the text of the call that has it, or None."""
    text = text[:_MOST_TEXT]
    for harm, sign in _CALLS:
        found = [one for one in sign.finditer(text) if not _imports(text, one.start())]
        if found:
            worst = max(found, key=lambda one: _tells(_snippet(text, one.start())))
            return CodeEffect(harm, _snippet(text, worst.start()))
    return None


def _tells(snippet: str) -> tuple[bool, bool]:
    return "(" in snippet, "/" in snippet


def _imports(text: str, at: int) -> bool:
    """Return whether a match is only in an import statement, which does not call it yet."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return re.match(r"\s*(?:from|import)\s", line) is not None and ";" not in line


def _snippet(text: str, at: int) -> str:
    """Return the text of a function call: its line up to the closing bracket."""
    line = text[at : at + _MOST_SNIPPET].split("\n", 1)[0].split(";", 1)[0]
    depth = 0
    for end, char in enumerate(line):
        depth += (char == "(") - (char == ")")
        if char == ")" and depth <= 0:
            return line[: end + (depth == 0)]
    return line.rstrip()


# ---------------------------------------------------------------- commands in code

_STARTING = re.compile(
    r"\b(?:check_call|check_output|execFile(?:Sync)?|execSync|getoutput|getstatusoutput|passthru"
    r"|popen|proc_open|shell_exec|spawn(?:Sync)?|system|(call|run)|(exec))\s{0,9}\(?\s{0,9}\[?\s{0,9}"
    r"(?=[\"'`])|(?=`)()",
    re.IGNORECASE,
)
_LITERAL = re.compile(r"\s{0,9}([\"'`])((?:\\.|(?!\1)[^\\])*)\1(\s{0,9},\s{0,9}\[?)?", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_BLANKS = {"n": "\n", "t": "\t", "r": "\r"}
_TAKING_BACKTICKS = frozenset({"Perl", "PHP", "Ruby"})


@dataclass(frozen=True, slots=True)
class Started:
    """A command that code starts with a string literal; the literal is from `begin` to `end`."""

    command: str
    begin: int
    end: int


def list_started(text: str, language: str) -> list[Started]:
    """Return the commands that code starts with string literals."""
    done: list[Started] = []
    for found in _STARTING.finditer(text[:_MOST_TEXT]):
        calls, executes, backtick = found[1], found[2], found[3]
        meant = (
            (calls is None or "subprocess" in text)
            and (executes is None or language != "Python")
            and (backtick is None or language in _TAKING_BACKTICKS)
        )
        if not meant or (done and found.start() < done[-1].end):
            continue
        words, end = list[str](), found.end()
        while literal := _LITERAL.match(text, end):
            words.append(_ESCAPED.sub(lambda one: _BLANKS.get(one[1], one[1]), literal[2]))
            end = literal.end()
            if not literal[3] or found[0].lower().startswith("popen("):
                break
        if words:
            command = words[0] if len(words) == 1 else join(words)
            done.append(Started(command, found.start(), end))
    return done


def cut_out(text: str, started: Sequence[Started]) -> str:
    """Return code without the commands that it starts."""
    begins = [0, *(one.end for one in started)]
    ends = [*(one.begin for one in started), len(text)]
    return " ".join(text[begin:end] for begin, end in zip(begins, ends, strict=True))


# ---------------------------------------------------------------- SQL

_COMMENTS = re.compile(r"--[^\n]*|/\*(?!!).*?\*/|^\s*#[^\n]*", re.DOTALL | re.MULTILINE)
_TEXTS = re.compile(r"'(?:[^'\\]|\\.|'')*'|\$(\w*)\$.*?\$\1\$", re.DOTALL)
_BEGINS = re.compile(
    r"\s*(?:alter|begin|call|comment|commit|copy|create|delete|drop|exec|execute|explain|grant"
    r"|insert|merge|replace|revoke|select|set|show|truncate|update|use|vacuum|with)\b",
    re.IGNORECASE,
)
_WORD = r"(?:[\w$]+|\"[^\"]+\"|`[^`]+`|\[[^\]]+\])"
_NAME = rf"(?:if\s+exists\s+)?(?:only\s+)?({_WORD}(?:\.{_WORD})*)"
_KIND = r"(?:or\s+replace\s+)?(?:unique\s+|temp(?:orary)?\s+)?\w+\s+"
_STATEMENTS = (
    (CodeHarm.DESTROY, "Drops database", rf"\bdrop\s+database\s+{_NAME}"),
    (CodeHarm.DESTROY, "Drops schema", rf"\bdrop\s+schema\s+{_NAME}"),
    (CodeHarm.DESTROY, "Drops table", rf"\bdrop\s+(?:temporary\s+)?table\s+{_NAME}"),
    (CodeHarm.DESTROY, "Drops", rf"\bdrop\s+(?:materialized\s+)?\w+\s+(?:concurrently\s+)?{_NAME}"),
    (CodeHarm.DESTROY, "Empties table", rf"\btruncate\s+(?:table\s+)?{_NAME}"),
    (CodeHarm.DESTROY, "Deletes from", rf"\bdelete\s+from\s+{_NAME}"),
    (CodeHarm.RUN, "Runs a program by SQL:", r"\bcopy\b[^;]{0,400}\b(program)\b"),
    (CodeHarm.RUN, "Runs", r"\b(xp_cmdshell|sys_exec|pg_read_file|lo_export|load_file)\b"),
    (CodeHarm.RUN, "Grants", r"\bgrant\s+([\w ,]+?)\s+(?:on|to)\b"),
    (CodeHarm.RUN, "Revokes", r"\brevoke\s+([\w ,]+?)\s+(?:on|from)\b"),
    (CodeHarm.RUN, "Changes role", rf"\b(?:alter|create)\s+(?:role|user)\s+{_NAME}"),
    (CodeHarm.CHANGE, "Updates", rf"\bupdate\s+{_NAME}\s+set\b"),
    (CodeHarm.CHANGE, "Changes table", rf"\balter\s+table\s+{_NAME}"),
    (CodeHarm.CHANGE, "Adds to", rf"\b(?:insert|replace)\s+into\s+{_NAME}"),
    (CodeHarm.CHANGE, "Merges into", rf"\bmerge\s+into\s+{_NAME}"),
    (CodeHarm.CHANGE, "Creates", rf"\bcreate\s+{_KIND}(?:if\s+not\s+exists\s+)?{_NAME}"),
    (CodeHarm.CHANGE, "Calls", rf"\b(?:call|exec(?:ute)?)\s+{_NAME}"),
)
_SIGNS = tuple((harm, verb, re.compile(sign, re.IGNORECASE)) for harm, verb, sign in _STATEMENTS)
_ALL = {"Deletes from": "Deletes all of", "Updates": "Updates all of"}  # without a condition
_WHERE = re.compile(r"\bwhere\b", re.IGNORECASE)
_ALWAYS_TRUE = re.compile(
    r"\b(?:where|or)\s+\(*\s*(?:true\b|not\s+false\b|''\s*=\s*''|([\w.]+)\s*=\s*\1(?![\w.])"
    r"|\d+\s*(?:[<>=!]+\s*\d+|(?=$|[);]|\b(?:limit|or|returning)\b)))",
    re.IGNORECASE,
)


@lru_cache(maxsize=512)
def find_in_sql(text: str) -> CodeEffect | None:
    """Return the worst effect of SQL, or None if the text does not begin like SQL."""
    statements = [one for one in _split(text[:_MOST_TEXT]) if one.strip()]
    if not statements or not _BEGINS.match(statements[0]):
        return None
    found = [_read(one) for one in statements]
    worst = min(found, key=lambda one: one.harm)
    return CodeEffect(worst.harm, worst.text, worst.verb, len(statements) - 1)


def _split(text: str) -> Iterator[str]:
    bare = _COMMENTS.sub(" ", text)
    begin = 0
    inside = [found.span() for found in _TEXTS.finditer(bare)]
    for found in re.finditer(";", bare):
        if not any(start <= found.start() < end for start, end in inside):
            yield bare[begin : found.start()]
            begin = found.end()
    yield bare[begin:]


def _read(statement: str) -> CodeEffect:
    said = _TEXTS.sub("''", statement)
    for harm, verb, sign in _SIGNS:
        if found := sign.search(said):
            name, left = found[1].strip('"`[]'), said[found.end() :]
            if verb in _ALL and (not _WHERE.search(left) or _ALWAYS_TRUE.search(left)):
                return CodeEffect(CodeHarm.DESTROY, name, _ALL[verb])
            return CodeEffect(harm, name, verb)
    return CodeEffect(CodeHarm.LOOK, " ".join(statement.split()), "Runs")


# The files that a patch names. A patch is understood as a whole, or not at all.

_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_END_OF_FILE = "*** End of File"
_BLOCKS = {"<<<<<<< SEARCH": ">>>>>>> REPLACE", "<<<<<<< ORIGINAL": ">>>>>>> UPDATED"}
_ENVELOPE_FILE = re.compile(r"\*\*\* (?:(?:Add|Update) File|Move to): (?P<path>\S.*)")
_ENVELOPE_BODY = re.compile(r"[ +-].*|@@.*|\*\*\* End of File|")
_GIT = re.compile(r"diff --git (?P<old>[^\s\"]+) (?P<new>[^\s\"]+)")
_SIDE = re.compile(r"(?:---|\+\+\+) (?P<path>[^\t\"]+?)(?:\t.*)?")
_RENAME = re.compile(r"(?:rename|copy) (?:from|to) (?P<path>[^\t\"]+)")
_ABOUT = re.compile(
    r"index [0-9a-f]+\.\.[0-9a-f]+(?: 100(?:644|755))?|new file mode 100644|similarity index \d+%"
)
_HUNK = re.compile(r"@@ -\d+(?:,(?P<old>\d+))? \+\d+(?:,(?P<new>\d+))? @@.*")
_BARE = re.compile(r"(?:@@|[ +]|-(?!-- )|\\ No newline).*|")
# The headers by which any kind of patch names a file.
_NAMING = re.compile(
    r"^(?:\*\*\* (?:\w+ File|Move to):|\+\+\+|---|diff --git|Index:|(?:rename|copy) (?:from|to)) *"
    r"(?P<path>\S.*)",
    re.MULTILINE,
)

_DELETED = re.compile(
    r"^(?:\*\*\* Delete File: *(\S.*)|--- (?:a/)?([^\t\n]+).*\n\+\+\+ /dev/null"
    r"|diff --git (?:a/)?(\S+) \S+\ndeleted file)",
    re.MULTILINE,
)
_CHANGED = re.compile(
    r"^(?:\*\*\* (?:(?:Add|Update) File|Move to): *(\S.*)|\+\+\+ (?:b/)?(?!/dev/null)([^\t\n]+)"
    r"|(?:rename|copy) to (\S.*))",
    re.MULTILINE,
)


def is_patch(text: str) -> bool:
    """Return whether a text begins like a patch."""
    return text.lstrip().startswith((_BEGIN, "diff --git ", "--- ", "Index: "))


def deleted_by_patch(text: str) -> tuple[str, ...]:
    """Return the files that a patch deletes, even if parts of the patch are not understood."""
    return _find_named(_DELETED, text)


def changed_by_patch(text: str) -> tuple[str, ...]:
    """Return the files that a patch creates, changes or moves, even if parts of it are not
    understood."""
    return _find_named(_CHANGED, text)


def _find_named(sign: re.Pattern[str], text: str) -> tuple[str, ...]:
    found = (one for line in sign.finditer(text) for one in line.groups() if one)
    return tuple(dict.fromkeys(one.strip() for one in found))


def files_of_patch(text: str) -> tuple[str, ...] | None:
    """Return the files that a patch creates or changes; empty if it names none.

    Return None if a line is not understood, or if the patch deletes or links a file or changes its
    mode.
    """
    lines = text.rstrip("\n").split("\n")
    if lines[0] == _BEGIN:
        return _of_envelope(lines)
    if lines[0] in _BLOCKS:
        return () if _replaces(lines, (lines[0], "=======", _BLOCKS[lines[0]])) else None
    if lines[0].startswith("@@"):
        return () if all(map(_BARE.fullmatch, lines)) and "\n+++ " not in text else None
    return _of_diff(lines)


def count_lines(text: str) -> tuple[int, int] | None:
    """Return how many lines a patch adds and removes, or None if it is not understood."""
    if files_of_patch(text) is None:
        return None
    lines = text.split("\n")
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    heads = sum(
        one.startswith("--- ") and other.startswith("+++ ") for one, other in pairwise(lines)
    )
    return added - heads, removed - heads


def named_in_patches(text: str) -> tuple[str, ...]:
    """Return every string that could be a file name if any part of the text is a patch."""
    found = (line.group("path") for line in _NAMING.finditer(text))
    return tuple(part for path in found for part in (path, *path.split()))


def _of_envelope(lines: list[str]) -> tuple[str, ...] | None:
    if lines[-1] != _END:
        return None
    paths: list[str] = []
    added = False
    for line in lines[1:-1]:
        if (named := _ENVELOPE_FILE.fullmatch(line)) is not None:
            paths.append(named["path"])
            added = line.startswith("*** Add File")
        elif not paths or not _ENVELOPE_BODY.fullmatch(line):
            return None
        elif line != _END_OF_FILE and (line.strip().startswith("***") or added) and line[:1] != "+":
            return None  # some programs take it for the next file
    return tuple(paths) or None


def _of_diff(lines: list[str]) -> tuple[str, ...] | None:
    paths: list[str] = []
    old = new = 0  # lines of the hunk that are still to come
    for line in lines:
        if line.startswith("\\ No newline"):
            continue
        if old > 0 or new > 0:
            if line[:1] not in ("", " ", "+", "-"):
                return None
            old, new = old - (line[:1] != "+"), new - (line[:1] != "-")
        elif (hunk := _HUNK.fullmatch(line)) is not None and paths:
            old, new = int(hunk["old"] or 1), int(hunk["new"] or 1)
        else:
            found = _read_header(line)
            if found is None:
                return None
            paths += found
    complete = old == 0 and new == 0
    return tuple(dict.fromkeys(paths)) if paths and complete else None


def _read_header(line: str) -> list[str] | None:
    """Return the possible file names in a header line, or None if it is not a known header."""
    if _ABOUT.fullmatch(line):
        return []
    if line == "--- /dev/null":
        return []  # the file is new
    found = _GIT.fullmatch(line) or _SIDE.fullmatch(line) or _RENAME.fullmatch(line)
    if found is None or line == "+++ /dev/null":
        return None
    return [one for path in found.groups() for one in (path, path.partition("/")[2]) if one]


def _replaces(lines: list[str], order: tuple[str, str, str]) -> bool:
    """Return whether lines consist only of search-and-replace blocks."""
    at = 0
    for line in lines:
        if line == order[at]:
            at = (at + 1) % 3
        elif line in order or (at == 0 and line.strip()):
            return False
    return at == 0
