"""Reads a command string only where every shell reads it alike; anything else is not read at all.

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
