"""Backticks as a shell reads them, which the grammar does not: each `…` becomes $(…).

The first backtick that no backslash protects ends a pair, so three of them are an empty pair and
the beginning of another. Inside, a backslash before a backtick, a dollar sign or another one is
taken away, and what is left is read anew: that is how they are nested. A pair that is empty runs
nothing and leaves nothing, so that ``rm is rm.
"""

from __future__ import annotations

import re

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
