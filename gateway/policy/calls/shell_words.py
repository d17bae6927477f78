"""Reads a command string only where every shell reads it alike, backticks too.

Two readers must agree: a small scanner that knows no more than plain and quoted words, and bash's
grammar as tree-sitter has it. A string is read when both find one simple command with the same
words: no operators, substitutions, redirections, assignments, globs, braces, comments, escapes,
line ends or odd characters. Nothing is guessed, and no word is expanded.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from gateway.domain.safe_text import make_visible

MAX_COMMAND = 4096
MAX_WORDS = 64
# How agents hand a command to a shell as a list.
WRAPPER = ("bash", "-lc")

_PLAIN = "[A-Za-z0-9_@%+=:,./-]"
_BARE = rf"(?!=){_PLAIN}+(?:(?<=[A-Za-z0-9])~{_PLAIN}*)*"
# A lone backslash is itself in single quotes; before a quote or another one it is not in fish.
_SINGLE = r"'(?:[^'\\\x00-\x1f\x7f]|\\(?=[^'\\\x00-\x1f\x7f]))*'"
_DOUBLE = r'"[^"\\$`!\x00-\x1f\x7f]*"'
_QUOTED = rf"(?:{_SINGLE}|{_DOUBLE})"
# A quoted word stands alone, or as the value of a flag: --format='%h %s'.
_WORD = re.compile(
    rf"(?P<head>{_BARE}=)(?P<value>{_QUOTED})|(?P<bare>{_BARE})"
    rf"|(?P<quoted>{_QUOTED})"
)
_SPACES = re.compile(" +")
# Some hosts undo these before they give the text to a shell, and what was quoted is so no more.
ENTITY = re.compile(r"&#?\w+;")
_LEAVES = frozenset({"word", "number", "raw_string", "string", "concatenation", "string_content"})
_PLAIN_CATEGORIES = frozenset("LMNPS")


@dataclass(frozen=True, slots=True)
class Word:
    """One word as the program gets it; `head` is the part of it that stood without quotes."""

    text: str
    head: str

    @property
    def plain(self) -> bool:
        """Whether no part of it was quoted."""
        return self.head == self.text


@lru_cache(maxsize=1024)  # a request is read by several grants, rules and offers
def simple_command(text: str) -> tuple[Word, ...] | None:
    """Return the words of one plain simple command, or None for everything else."""
    if not text or len(text) > MAX_COMMAND or ENTITY.search(text) or not _readable(text):
        return None
    found = _scan(text)
    if found is None or len(found) > MAX_WORDS or not _grammar_agrees(text, found):
        return None
    words = tuple(map(_word, found))
    return words if words[0].plain and "=" not in words[0].text else None


def plain_words(parts: list[str]) -> tuple[Word, ...] | None:
    """Return the words of an argument list that needs no quoting wherever it is put together."""
    if not 0 < len(parts) <= MAX_WORDS or sum(map(len, parts)) > MAX_COMMAND:
        return None
    if not all(re.fullmatch(_BARE, part) for part in parts) or "=" in parts[0]:
        return None
    return tuple(Word(part, part) for part in parts)


def unwrap(parts: list[str]) -> str | None:
    """Return the command in `["bash", "-lc", COMMAND]`, which one shell alone reads."""
    return parts[-1] if tuple(parts[:-1]) == WRAPPER else None


def _readable(text: str) -> bool:
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
    """Whether bash's grammar sees exactly these words in exactly one command."""
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


@lru_cache(maxsize=16)  # a command is read in several ways, one after the other
def parse_shell(source: bytes) -> ShellNode:
    """Return the tree of what bash would read, as far as it is one."""
    return Parser(_language()).parse(source).root_node


@lru_cache(maxsize=1)
def _language() -> Language:
    return Language(tree_sitter_bash.language())


# Backticks as a shell reads them, which the grammar does not: each `…` becomes $(…).
#
# The first backtick that no backslash protects ends a pair, so three of them are an empty pair and
# the beginning of another. Inside, a backslash before a backtick, a dollar sign or another one is
# taken away, and what is left is read anew: that is how they are nested. A pair that is empty runs
# nothing and leaves nothing, so that ``rm is rm.

_MOST_NESTED = 8  # each level doubles its backslashes
_UNDONE = re.compile(r"\\([`\\$])")
_UNDONE_IN_QUOTES = re.compile(r"\\([`\\$\"])")
_HEREDOC = re.compile(r"<<(-?)[ \t]*((?:'[^'\n]*'|\"[^\"\n]*\"|\\.|[^\s'\"\\;&|<>()`#])+)")
_BEFORE_COMMENTS = " \t\n;&|("


def spell_out(text: str, depth: int = _MOST_NESTED) -> str:
    """Return a text for a shell with $(…) in place of each pair of backticks that it would act on,
    and without those that are empty."""
    if "`" not in text:
        return text
    spelling = _Spelling(text, depth)
    while spelling.goes_on:
        spelling.step()
    return spelling.spelled


class _Spelling:
    """Goes through one text once. `_open` holds the quotes and brackets that stand open."""

    def __init__(self, text: str, depth: int) -> None:
        self._text = text
        self._depth = depth
        self._at = 0
        self._out: list[str] = []
        self._open: list[str] = []
        self._heredocs: list[tuple[str, bool, bool]] = []

    @property
    def goes_on(self) -> bool:
        """Whether there is more of the text."""
        return self._at < len(self._text)

    @property
    def spelled(self) -> str:
        """What the text has become so far."""
        return "".join(self._out)

    def step_through(self) -> None:
        """Take one piece of a text in which quotes are plain."""
        if self._text[self._at] == "`":
            self._take_pair(quoted=False)
        else:
            self._take(2 if self._text[self._at] == "\\" else 1)

    def step(self) -> None:
        """Take one piece of a script."""
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
        """Take what stands in single quotes, where only $'…' has escapes."""
        end = self._at + 1
        escapes = self._text[self._at - 1 : self._at] == "$"
        while end < len(self._text) and self._text[end] != "'":
            end += 2 if escapes and self._text[end] == "\\" else 1
        self._take(end + 1 - self._at)

    def _take_pair(self, *, quoted: bool) -> None:
        """Take what stands between two backticks; one that is not closed reaches to the end."""
        end = self._at + 1
        while end < len(self._text) and self._text[end] != "`":
            end += 2 if self._text[end] == "\\" else 1
        inside = self._text[self._at + 1 : end]
        self._at = end + 1
        undone = (_UNDONE_IN_QUOTES if quoted else _UNDONE).sub(r"\1", inside)
        runs = spell_out(undone, self._depth - 1) if self._depth else undone
        if not runs.strip():
            return
        # A bracket would be arithmetic, and a comment or a text at the end would take ours along.
        lead = " " if runs[0] == "(" else ""
        end_of = "\n" if "#" in runs or "<<" in runs else ""
        self._out.append(f"$({lead}{runs}{end_of})")

    def _take_heredocs(self) -> None:
        """Take the texts that begin here; in those whose end was quoted nothing is acted on."""
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
    """Return a text that a shell only looks through for what it puts in, where quotes are plain."""
    spelling = _Spelling(text, depth)
    while spelling.goes_on:
        spelling.step_through()
    return spelling.spelled
