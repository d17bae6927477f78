"""Read shell words, and the programs that wrappers start. Start reading at `simple_command` and
`strip_wrapper`.

A command string is read only if every shell reads it alike. Two readers must agree: a scanner that
knows only plain and quoted words, and tree-sitter's grammar of bash. Both must find one simple
command with the same words. The string may not have operators, expansions, redirections,
assignments, wildcards, comments, escapes, line ends or odd characters. Nothing is guessed or
expanded.

`wrappers.txt` lists programs that start another program, and their options with values. If an
option is unknown, it may also have a value. The words after it are then a guess, and the result is
not `exact`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from gateway.domain.safe_text import make_visible

# Environment variables that change which code runs, or where.

_STEERING = re.compile(
    r"PATH|IFS|HOME|SHELL|ENV|BASH_(?:ENV|FUNC_.*)|(?:LD|DYLD)_.*|PYTHON(?:PATH|HOME|STARTUP|USERBASE)"
    r"|NODE_(?:OPTIONS|PATH)|PERL5?(?:LIB|OPT|5LIB|5OPT|5DB)|RUBY(?:OPT|LIB)|JAVA_TOOL_OPTIONS|CLASSPATH"
    r"|GIT_(?:SSH.*|EXEC_PATH|CONFIG.*|DIR|WORK_TREE|ASKPASS|PROXY.*|EDITOR|PAGER|EXTERNAL_DIFF"
    r"|TEMPLATE_DIR)|(?:GIT_)?(?:EDITOR|VISUAL|PAGER)|LESSOPEN|PROMPT_COMMAND|PS4"
    r"|.*_PROXY|.*_OPTIONS|.*_OPTS|(?:SSL|CURL)_.*|.*_CA_BUNDLE",
    re.IGNORECASE,
)
_RUN = re.compile(
    r"(?:GIT_|MAN|SYSTEMD_|AWS_|GH_|DELTA_)?PAGER|(?:GIT_|GIT_SEQUENCE_|SUDO_|HG|SVN_|GH_|KUBE_|FC)?EDITOR"
    r"|VISUAL|BROWSER|GIT_SSH(?:_COMMAND)?|GIT_EXTERNAL_DIFF|GIT_PROXY_COMMAND|(?:GIT|SSH|SUDO)_ASKPASS"
    r"|(?:CVS|RSYNC)_RSH|SVN_SSH|PROMPT_COMMAND|LESS(?:OPEN|CLOSE)|FZF_DEFAULT_COMMAND|MAKESHELL"
)


def is_run(name: str) -> bool:
    """Return whether a shell or a program runs the value of this variable as a command."""
    return _RUN.fullmatch(name) is not None


def steers(name: str) -> bool:
    """Return whether a variable affects which code runs, or which server is contacted."""
    return _STEERING.fullmatch(name) is not None


# Read the tables beside this file: one entry per line, comments after `#`.


def rows(name: str) -> Iterator[str]:
    """Yield the entries of a table, without comments and empty lines."""
    text = (files("gateway.policy.calls") / name).read_text(encoding="utf-8")
    return (line for line in text.splitlines() if line.strip() and not line.startswith("#"))


def load_words(name: str) -> frozenset[str]:
    """Return all words of a table."""
    return frozenset(word for row in rows(name) for word in row.split())


SHELLS = frozenset({"ash", "bash", "dash", "fish", "ksh", "mksh", "rbash", "sh", "yash", "zsh"})
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=")
_TEXT = re.compile(r"-[A-Za-z]*c[A-Za-z]*")  # `-c`, alone or in a cluster: `-lc`
_EXECUTE = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_VALUES_OF_SHELLS = frozenset({"-o", "-O", "+o", "+O", "--rcfile", "--init-file"})


@dataclass(frozen=True, slots=True)
class Wrapped:
    """The program that a wrapper starts: the words from `begins` to `ends`, a `script`, or its
    input.

    `names` are the words that identify the wrapper, and `sets` the variables that it sets. The
    wrapper `moves` if it starts the program in another folder or on another machine. If `also` is
    true, it does more than start the program. `operands` are the wrapper's own, such as a host.
    """

    names: tuple[str, ...]
    begins: int | None = None
    ends: int | None = None
    script: str | None = None
    from_input: bool = False
    sets: tuple[str, ...] = ()
    moves: bool = False
    also: bool = False
    exact: bool = True
    operands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Row:
    names: tuple[str, ...]
    valued: frozenset[str]
    alone: frozenset[str]
    scripts: frozenset[str]
    moving: frozenset[str]
    operands: int
    only: frozenset[str]
    moves: bool
    joins: bool
    dashes: bool


def strip_wrapper(words: Sequence[str]) -> Wrapped | None:
    """Return the program that these words start, or None if they start no other program."""
    name = words[0].rstrip("/").rpartition("/")[2]
    if name in SHELLS:
        return _strip_shell(name, words)
    if name == "command" and words[1:2] in (["-v"], ["-V"]):
        return None
    if name == "eval":
        return Wrapped((name,), script=" ".join(words[1:]))
    if name == "trap" and len(words) > 2 and words[1][:1] != "-":  # noqa: PLR2004
        return Wrapped((name,), script=words[1], begins=1)
    if name in ("find", "fd"):
        return _strip_find(name, words)
    row = read_wrappers().get((name, words[1])) if len(words) > 1 else None
    row = row or read_wrappers().get((name,))
    return None if row is None else _strip(row, words)


def _strip_shell(name: str, words: Sequence[str]) -> Wrapped | None:
    at = 1
    while at < len(words) and words[at][:1] in ("-", "+") and words[at] not in ("-", "--"):
        if _TEXT.fullmatch(words[at]):
            rest = [one for one in range(at + 1, len(words)) if words[one][:1] not in ("-", "+")]
            if not rest:
                return None
            return Wrapped((name,), script=words[rest[0]], begins=rest[0])
        at += 2 if words[at] in _VALUES_OF_SHELLS else 1
    stdin = at >= len(words) or words[at] == "-" or "-s" in words[1:at]
    return Wrapped((name,), from_input=True) if stdin else None


def _strip_find(name: str, words: Sequence[str]) -> Wrapped | None:
    at = next((at for at, one in enumerate(words) if one in _EXECUTE), None)
    if name == "fd":
        at = next((at for at, one in enumerate(words) if one in ("-x", "-X", "--exec")), at)
    if at is None or at + 1 >= len(words):
        return None
    ends = next((end for end in range(at + 1, len(words)) if words[end] in (";", "+")), None)
    more = ends is not None and any(one in _EXECUTE for one in words[ends:])
    return Wrapped((name,), begins=at + 1, ends=ends, also=True, exact=not more)


def _strip(row: _Row, words: Sequence[str]) -> Wrapped | None:
    at, left, found = len(row.names), row.operands, Wrapped(row.names, moves=row.moves)
    while at < len(words):
        word = words[at]
        option, equals, value = word.partition("=")
        if word == "--":
            at += 1
            if left == 0 or row.dashes:
                break
        elif option in row.scripts:
            script = value if equals else " ".join(words[at + 1 : at + 2])
            return replace(found, script=script, begins=min(at + (not equals), len(words) - 1))
        elif word.startswith("-") and len(word) > 1:
            found = _with_option(found, row, word)
            at += 2 if word in row.valued else 1
        elif (name := _ASSIGNMENT.match(word)) and not row.dashes and left == row.operands:
            found = replace(found, sets=(*found.sets, name[1]))
            at += 1
        elif left or (row.dashes and "--" in words[at:]):
            found = replace(found, operands=(*found.operands, word))
            left -= 1
            at += 1
        else:
            break
    if at >= len(words) or (row.only and not row.only & set(found.operands[:1])):
        return None
    joined = row.joins and (len(words) - at > 1 or " " in words[at])
    return replace(found, script=" ".join(words[at:]) if joined else None, begins=at)


def _with_option(found: Wrapped, row: _Row, word: str) -> Wrapped:
    option = word.partition("=")[0]
    attached = word[1:2] != "-" and word[:2] in row.valued
    known = option in row.valued | row.alone or attached or _is_cluster(word, row)
    moves = found.moves or not row.moving.isdisjoint((option, word[:2]))
    return replace(found, exact=found.exact and known, moves=moves)


def _is_cluster(word: str, row: _Row) -> bool:
    """Return whether a word is a cluster of known one-letter options, such as `-nE`."""
    letters = [f"-{one}" for one in word[1:]]
    return not word.startswith("--") and all(one in row.alone for one in letters)


@lru_cache(maxsize=1)
def read_wrappers() -> dict[tuple[str, ...], _Row]:
    """Return the rows of programs that start another program, by their names."""
    return {row.names: row for line in rows("wrappers.txt") for row in _read_row(line)}


def _read_row(line: str) -> list[_Row]:
    named, *fields = (one.strip() for one in line.split("|"))
    said = {one.partition(":")[0]: one.partition(":")[2].split() for one in fields}
    flags = said.get("is", [])
    row = {
        "valued": frozenset(said.get("values", ())),
        "alone": frozenset(said.get("alone", ())),
        "scripts": frozenset(said.get("script", ())),
        "moving": frozenset(said.get("moving", ())),
    }
    return [
        _Row(
            names=tuple(names.split()),
            only=frozenset(said.get("only", ())),
            operands=int((said.get("skip") or ["0"])[0]),
            moves="elsewhere" in flags,
            joins="joined" in flags,
            dashes="dashes" in flags,
            **row,
        )
        for names in named.split(",")
    ]


# A command string.

MAX_COMMAND = 4096
MAX_WORDS = 64
# The words before a command in a list, by which agents hand it to a shell.
WRAPPER = ("bash", "-lc")

_PLAIN = "[A-Za-z0-9_@%+=:,./-]"
_BARE = rf"(?!=){_PLAIN}+(?:(?<=[A-Za-z0-9])~{_PLAIN}*)*"
# In single quotes a lone backslash is literal; in fish, not before a quote or a backslash.
SINGLE_QUOTED = r"'(?:[^'\\\x00-\x1f\x7f]|\\(?=[^'\\\x00-\x1f\x7f]))*'"
DOUBLE_QUOTED = r'"[^"\\$`!\x00-\x1f\x7f]*"'
_QUOTED = rf"(?:{SINGLE_QUOTED}|{DOUBLE_QUOTED})"
# A quoted word is separate, or is the value of a flag: --format='%h %s'.
_WORD = re.compile(
    rf"(?P<head>{_BARE}=)(?P<value>{_QUOTED})|(?P<bare>{_BARE})"
    rf"|(?P<quoted>{_QUOTED})"
)
_SPACES = re.compile(" +")
# Some coding agents decode these before a shell reads the text, and so undo quotes.
ENTITY = re.compile(r"&#?\w+;")
_LEAVES = frozenset({"word", "number", "raw_string", "string", "concatenation", "string_content"})
_PLAIN_CATEGORIES = frozenset("LMNPS")


@dataclass(frozen=True, slots=True)
class Word:
    """One word as the program receives it; `head` is its part outside quotes."""

    text: str
    head: str

    @property
    def plain(self) -> bool:
        """Whether no part of the word was quoted."""
        return self.head == self.text


@lru_cache(maxsize=1024)  # several grants, rules and offers read a request
def simple_command(text: str) -> tuple[Word, ...] | None:
    """Return the words of one plain simple command, or None for any other text."""
    if not text or len(text) > MAX_COMMAND or ENTITY.search(text) or not is_readable(text):
        return None
    found = _scan(text)
    if found is None or len(found) > MAX_WORDS or not _grammar_agrees(text, found):
        return None
    words = tuple(map(_word, found))
    return words if words[0].plain and "=" not in words[0].text else None


def plain_words(parts: list[str]) -> tuple[Word, ...] | None:
    """Return the words of an argument list if no word needs quotes, or None."""
    if not 0 < len(parts) <= MAX_WORDS or sum(map(len, parts)) > MAX_COMMAND:
        return None
    if not all(re.fullmatch(_BARE, part) for part in parts) or "=" in parts[0]:
        return None
    return tuple(Word(part, part) for part in parts)


def unwrap(parts: list[str]) -> str | None:
    """Return the command in `["bash", "-lc", COMMAND]`, which only one shell reads, or None."""
    return parts[-1] if tuple(parts[:-1]) == WRAPPER else None


def is_readable(text: str) -> bool:
    """Return whether a text has no hidden, reordered or deceptive characters."""
    if text.isascii():
        return True
    odd = [char for char in text if not char.isascii()]
    if any(unicodedata.category(char)[0] not in _PLAIN_CATEGORIES for char in odd):
        return False
    seen = make_visible(text)
    return not seen.hidden and not seen.mixed_script


def _scan(text: str) -> list[re.Match[str]] | None:
    words: list[re.Match[str]] = []
    at = 0
    while True:
        found = _WORD.match(text, at)
        if found is None:
            return None
        words.append(found)
        if found.end() == len(text):
            return words
        space = _SPACES.match(text, found.end())
        if space is None:
            return None
        at = space.end()


def _word(found: re.Match[str]) -> Word:
    if found["bare"] is not None:
        return Word(found["bare"], found["bare"])
    head, quoted = found["head"] or "", found["value"] or found["quoted"]
    return Word(head + quoted[1:-1], head)


def _grammar_agrees(text: str, words: list[re.Match[str]]) -> bool:
    """Return whether bash's grammar finds exactly one command with exactly these words."""
    source = text.encode()
    root = parse_shell(source)
    if root.has_error or root.child_count != 1 or root.children[0].type != "command":
        return False
    nodes = root.children[0].children
    if len(nodes) != len(words) or nodes[0].type != "command_name":
        return False
    parts = [*nodes[0].children, *nodes[1:]]
    if len(parts) != len(words) or parts[0].type != "word":
        return False
    return all(
        _is_leaf(node) and source[node.start_byte : node.end_byte] == word[0].encode()
        for node, word in zip(parts, words, strict=True)
    )


def _is_leaf(node: Node) -> bool:
    return (node.type in _LEAVES or not node.is_named) and all(map(_is_leaf, node.children))


ShellNode = Node


@lru_cache(maxsize=16)  # a command is read in several ways in a row
def parse_shell(source: bytes) -> ShellNode:
    """Return bash's syntax tree of a text. The tree may contain errors."""
    return Parser(_language()).parse(source).root_node


@lru_cache(maxsize=1)
def _language() -> Language:
    return Language(tree_sitter_bash.language())


# Replace backticks, which the grammar misreads, with $(…), as a shell reads them.
#
# The first unescaped backtick ends a pair, so three of them are an empty pair and the start of
# another. Inside, a backslash before a backtick, a dollar sign or a backslash is removed, and the
# rest is read again: so pairs can be nested. An empty pair is removed, so that ``rm is rm.

_MOST_NESTED = 8  # each level doubles its backslashes
_UNDONE = re.compile(r"\\([`\\$])")
_UNDONE_IN_QUOTES = re.compile(r"\\([`\\$\"])")
_HEREDOC = re.compile(r"<<(-?)[ \t]*((?:'[^'\n]*'|\"[^\"\n]*\"|\\.|[^\s'\"\\;&|<>()`#])+)")
_BEFORE_COMMENTS = " \t\n;&|("


def spell_out(text: str, depth: int = _MOST_NESTED) -> str:
    """Return a shell text in which each active pair of backticks is replaced by $(…)."""
    if "`" not in text:
        return text
    spelling = _Spelling(text, depth)
    while spelling.goes_on:
        spelling.step()
    return spelling.spelled


class _Spelling:
    """Reads one text once, from start to end. `_open` holds the quotes and brackets that are still
    open."""

    def __init__(self, text: str, depth: int) -> None:
        self._text = text
        self._depth = depth
        self._at = 0
        self._out: list[str] = []
        self._open: list[str] = []
        self._heredocs: list[tuple[str, bool, bool]] = []

    @property
    def goes_on(self) -> bool:
        """Whether some of the text has not been read yet."""
        return self._at < len(self._text)

    @property
    def spelled(self) -> str:
        """The text written so far."""
        return "".join(self._out)

    def step_through(self) -> None:
        """Read one piece of a text in which quotes have no meaning."""
        if self._text[self._at] == "`":
            self._take_pair(quoted=False)
        else:
            self._take(2 if self._text[self._at] == "\\" else 1)

    def step(self) -> None:
        """Read one piece of a script."""
        char = self._text[self._at]
        if char == "\\":
            self._take(2)
        elif char == "`":
            self._take_pair(quoted=self._open[-1:] == ['"'])
        elif self._open[-1:] == ['"']:
            self._step_in_quotes(char)
        else:
            self._step_outside(char)

    def _step_in_quotes(self, char: str) -> None:
        if char == '"':
            self._open.pop()
        elif self._text.startswith("$(", self._at):
            self._open.append("(")
            self._take(1)
        self._take(1)

    def _step_outside(self, char: str) -> None:
        if char == "'":
            self._take_single()
        elif char == "#" and (self._at == 0 or self._text[self._at - 1] in _BEFORE_COMMENTS):
            self._take_to(self._text.find("\n", self._at))
        elif char == "<" and self._text.startswith("<<<", self._at):
            self._take(3)
        elif char == "<" and (found := _HEREDOC.match(self._text, self._at)):
            tabs, word = found.groups()
            plain = re.sub(r"['\"\\]", "", word)
            self._heredocs.append((plain, plain != word, bool(tabs)))
            self._take(len(found.group()))
        elif char == "\n" and self._heredocs:
            self._take(1)
            self._take_heredocs()
        else:
            if char in '"(':
                self._open.append(char)
            elif char == ")" and self._open:
                self._open.pop()
            self._take(1)

    def _take(self, count: int) -> None:
        self._out.append(self._text[self._at : self._at + count])
        self._at += count

    def _take_to(self, end: int) -> None:
        self._take((len(self._text) if end < 0 else end) - self._at)

    def _take_single(self) -> None:
        """Read a text in single quotes; only $'…' has escapes."""
        end = self._at + 1
        escapes = self._text[self._at - 1 : self._at] == "$"
        while end < len(self._text) and self._text[end] != "'":
            end += 2 if escapes and self._text[end] == "\\" else 1
        self._take(end + 1 - self._at)

    def _take_pair(self, *, quoted: bool) -> None:
        """Read a pair of backticks. If the second is missing, it reaches to the end of the text."""
        end = self._at + 1
        while end < len(self._text) and self._text[end] != "`":
            end += 2 if self._text[end] == "\\" else 1
        inside = self._text[self._at + 1 : end]
        self._at = end + 1
        undone = (_UNDONE_IN_QUOTES if quoted else _UNDONE).sub(r"\1", inside)
        runs = spell_out(undone, self._depth - 1) if self._depth else undone
        if not runs.strip():
            return
        # Without the blank `((` is arithmetic; without the line end a comment hides the bracket.
        lead = " " if runs[0] == "(" else ""
        end_of = "\n" if "#" in runs or "<<" in runs else ""
        self._out.append(f"$({lead}{runs}{end_of})")

    def _take_heredocs(self) -> None:
        """Read the here-documents that begin here. Those whose delimiter was quoted stay
        unchanged."""
        for word, literal, tabs in self._heredocs:
            body: list[str] = []
            while self._at < len(self._text):
                end = self._text.find("\n", self._at)
                end = len(self._text) if end < 0 else end + 1
                line, self._at = self._text[self._at : end], end
                body.append(line)
                if (line.lstrip("\t") if tabs else line).removesuffix("\n") == word:
                    break
            text = "".join(body)
            self._out.append(text if literal else _spell_text(text, self._depth))
        self._heredocs = []


def _spell_text(text: str, depth: int) -> str:
    """Replace backticks in a text in which a shell only expands, so that quotes have no meaning."""
    spelling = _Spelling(text, depth)
    while spelling.goes_on:
        spelling.step_through()
    return spelling.spelled
