"""Read a shell script into the steps that it runs. Start at `read_script`.

A step is one program as a shell starts it: its words without quotes, and the wrappers that start it
(`sudo`, `env`, `sh -c`). It also has the folders where it may run, its variables and its input. The
reader follows `cd`, variables that the script sets, here-documents, substitutions, and scripts
within scripts. Words that only the agent's machine can expand are marked `open`. If the reader
understands only a part of a script, the script is not `whole`.
"""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache, partial

from gateway.policy.calls.shell_words import (
    SHELLS,
    ShellNode,
    is_run,
    parse_shell,
    spell_out,
    strip_wrapper,
)

MOST_TEXT = 20_000
_MOST_STEPS = 256
_MOST_FOLDERS = 8
_MOST_NESTED = 4
_MOST_BRACES = 64

_GLOB = re.compile(r"[*?]|\[[^\]]*\]")
_BRACES = re.compile(r"(.*?)\{([^{}\s]*,[^{}\s]*)\}(.*)", re.DOTALL)
_RANGE = re.compile(r"\{[^{}\s]*\.\.[^{}\s]*\}")
_ESCAPED = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r"\\([\"$`\\\n])")
_ANSI = re.compile(
    r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3}|.)", re.DOTALL
)
_ANSI_SIGNS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v",
               "e": "\x1b", "E": "\x1b"}  # fmt: skip
_RECKONING = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_NUMBER = re.compile(r"[0-9]+|\$[#?]")
_NAME = re.compile(r"[A-Za-z_]\w*")
_NOWHERE = re.compile(r"/dev/(?:null|stdout|stderr|tty|fd/[0-9]+)")
_INPUT = ("<", "<&")
_COPYING = (">&", "<&")  # a number or `-` may follow these instead of a file
# Places where a shell joins lines into one word, or takes a blank as part of a word.
_JOINS = re.compile(r"(?<=[^\s;&|()])\\\n|(?<=\s)\\[ \t]")
_PROTECTED = re.compile(rb"\\[\\$`]")
_CUTS = re.compile(
    r"\\(?:c|0|x0|x\{|u0|U0|[4-7][0-7]{2})"
)  # escapes that end a word in `$'…'`, or produce a control character
_ODD_ESCAPES = re.compile(r"\\(?:c|0|x\{|u|U|[4-7][0-7]{2})")
_LETTER_ESCAPED = re.compile(r"(?<!\\)(?:\\\\)*\\[A-Za-z0-9]")
_PLAIN_SUM = re.compile(r"\$\(\([\s0-9+*/%()-]*\)\)")
_RECKONED = re.compile(
    r"&#|\(\(|\$\[|\$\{!|@[A-Za-z]\}|\$\{\w+:(?![-+=?])|\{\w+\}[<>]|>\||(?<![^\s;&|(])\w+\[[^\]]*\]\+?="
    r"|[(\s]\[[^\]\s]+\]\+?="
)
# Settings before these commands stay set in some shells.
_KEEPING_SETTINGS = frozenset(
    {":", ".", "break", "continue", "eval", "exec", "exit", "export", "readonly", "return", "set",
     "shift", "times", "trap", "unset"}
)  # fmt: skip
_OF_TERMINAL = re.compile(r"\s-t\s+(?![0-9])")  # zsh evaluates the next word
_OF_TESTS = re.compile(r"([()!]|&&|\|\|)")
_SPLITS = re.compile(r"[\s*?\[\]]")
_SYSTEMS = ("/bin/", "/usr/bin/", "/usr/local/bin/")
_SUBSTITUTIONS = frozenset({"command_substitution", "process_substitution"})
_UNQUOTED = frozenset({"simple_expansion", "expansion", "command_substitution"})
_GOING = frozenset({"cd", "chdir", "pushd"})
_IN_PLACE = frozenset({"builtin", "command", "time"})  # they start builtins in the same shell
_SAYING = frozenset({"echo", "printf"})
_GROUPS = frozenset({"program", "compound_statement", "do_group", "else_clause", "elif_clause",
                     "case_item", "if_statement", "while_statement", "case_statement"})  # fmt: skip
_BRANCHES = frozenset({"if_statement", "elif_clause", "else_clause", "while_statement", "do_group",
                       "case_statement"})  # fmt: skip
_MOVING = _GOING | {"popd"}
_INDEX = re.compile(r"[A-Za-z_]\w*\[(?:[0-9]+|[@*])\]")
_SILENT = frozenset({"comment", "variable_name", "word", "heredoc_start", "heredoc_end",
                     "heredoc_body"})  # fmt: skip


INTERPRETERS = SHELLS | {
    ".", "bun", "deno", "iex", "irb", "lua", "node", "osascript", "perl", "php", "powershell",
    "pwsh", "python", "python2", "python3", "ruby", "source", "tclsh", "ts-node", "tsx",
}  # fmt: skip
"""Programs that run the code that they get or read."""


class Certainty(Enum):
    """How certain a word is: literal, a wildcard, or known only on the agent's machine."""

    PLAIN = 0
    GLOB = 1
    OPEN = 2


@dataclass(frozen=True, slots=True)
class Step:
    """One program that a script starts. `words` is never empty: for a command without words it is
    `:`, a program that does nothing.

    `wrappers` lists the programs that start it, outermost first, and `wrapping` all their words.
    `folders` lists where it may run, absolute or relative to the script's folder; None if unknown.
    `sets` names the variables that are set for it. `writes` and `reads` are the files of its
    redirections. `fed_by` lists the positions of the steps whose output is its input or part of its
    words. `given` is its input, if the script contains the input. The step is `exact` if no option
    of a wrapper was guessed.
    """

    words: tuple[str, ...]
    marks: tuple[Certainty, ...]
    wrappers: tuple[str, ...] = ()
    wrapping: tuple[str, ...] = ()
    folders: tuple[str, ...] | None = ("",)
    sets: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    fed_by: tuple[int, ...] = ()
    given: str | None = None
    exact: bool = True

    @property
    def name(self) -> str:
        """The program's name without its folder."""
        return base_name(self.words[0])

    @property
    def text(self) -> str:
        """The command in one line, with its wrappers, and programs without their folders."""
        return " ".join((*self.wrapping, self.name, *self.words[1:]))

    @property
    def is_open(self) -> bool:
        """Whether any of its words is known only on the agent's machine."""
        return Certainty.OPEN in self.marks

    def places(self, path: str) -> tuple[str, ...]:
        """Return a path relative to the script's folder, for each folder where the step may run."""
        if path.startswith(("/", "~", "$")):
            return (path,)
        return tuple(posixpath.join(folder, path) for folder in self.folders or ("?",))


@dataclass(frozen=True, slots=True)
class ShellScript:
    """The steps of a script, in the script's order.

    `run` lists the positions of the steps whose output a shell or an interpreter runs. If the
    script is not `alike`, some shells may interpret it differently, or run a variable's value.
    """

    steps: tuple[Step, ...]
    whole: bool
    run: frozenset[int] = frozenset()
    alike: bool = True

    def sources(self, positions: Iterable[int]) -> Iterator[Step]:
        """Yield the steps at these positions, and all steps whose output they use."""
        left, seen = list(positions), set[int]()
        while left:
            at = left.pop()
            if at not in seen:
                seen.add(at)
                yield self.steps[at]
                left += self.steps[at].fed_by

    def consumers(self, at: int) -> Iterator[Step]:
        """Yield the steps that directly use the output of the step at a position."""
        return (one for one in self.steps if at in one.fed_by)


def base_name(word: str) -> str:
    """Return a program's name without its folder."""
    return word.rstrip("/").rpartition("/")[2] or word


@lru_cache(maxsize=1024)  # deciders, findings, offers and cards all read the same text
def read_script(text: str) -> ShellScript:
    """Return the steps that a shell would run for a text. It never raises."""
    reader = _ScriptReader()
    reader.read(text, _Start())
    run = frozenset(reader.output_run)
    return ShellScript(tuple(reader.steps), reader.whole, run, reader.alike)


_BEGINS_ESCAPED = re.compile(rb"\n\\")
_LINES = re.compile(rb"\A\n+(?=\\)")


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    mark: Certainty = Certainty.PLAIN


@dataclass(frozen=True, slots=True)
class _Start:
    """How a program is started, as in `Step`. `given` is its standard input, if known."""

    wrappers: tuple[str, ...] = ()
    wrapping: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    fed_by: tuple[int, ...] = ()
    given: str | None = None
    exact: bool = True
    depth: int = 0
    outer: int = 0  # how many of the wrappers start the script itself


_Folders = tuple[str, ...] | None
_Ends = tuple[_Folders, _Folders]  # the folders after success, and after failure


def _either(one: _Folders, two: _Folders) -> _Folders:
    if one is None or two is None:
        return None
    both = tuple(dict.fromkeys((*one, *two)))
    return both if len(both) <= _MOST_FOLDERS else None


class _ScriptReader:
    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.whole = True
        self.alike = True
        self.output_run: set[int] = set()
        self._source = b""
        self._folders: _Folders = ("",)
        self._variables: dict[str, str | None] = {}
        self._sets: tuple[str, ...] = ()
        self._started = _Start()  # how the current script was started
        self._fed: list[int] = []  # the substitutions in the current words
        self._branches = 0  # how deep in code that may run never, or more than once

    def read(self, text: str, start: _Start) -> tuple[int, ...]:
        """Read a script, which may be inside another script. Return the steps that write the
        script's output."""
        if len(text) > MOST_TEXT or start.depth > _MOST_NESTED:
            self.whole = False
            text = text[:MOST_TEXT]
        self.whole = self.whole and not _JOINS.search(text)
        self.alike = self.alike and not _reckons_or_differs(text)
        before, self._source = self._source, spell_out(text).encode(errors="replace")
        root = self._parse()
        self.whole = self.whole and not root.has_error
        begin = len(self.steps)
        self._run(root, start)
        self._source = before
        return tuple(range(begin, len(self.steps)))

    def _parse(self) -> ShellNode:
        """Parse the source. The grammar would join a line that begins with a backslash to the
        previous line, so a blank is put between them."""
        root = parse_shell(self._source)
        if not _BEGINS_ESCAPED.search(self._source):
            return root
        joined = {
            node.start_byte + len(lines)
            for node in _descend(root)
            for lines in _LINES.findall(self._source[node.start_byte : node.end_byte])[:1]
            if node.type in ("word", "concatenation")
        }
        if not joined:
            return root
        cuts = [0, *sorted(joined), len(self._source)]
        self._source = b" ".join(self._source[a:b] for a, b in itertools.pairwise(cuts))
        return parse_shell(self._source)

    # ---------------------------------------------------------------- statements

    def _run(self, node: ShellNode, start: _Start) -> _Ends:
        """Read a statement. Return the folders in which the next statement may run."""
        run = _STATEMENTS.get(node.type)
        if run is not None:
            return run(self, node, start)
        if node.is_missing or (node.is_named and node.type not in _GROUPS | _SILENT):
            self.whole = False
        return self._run_each(node, start)

    def _run_each(self, node: ShellNode, start: _Start) -> _Ends:
        before = self._folders
        repeats, branches = node.type == "while_statement", node.type in _BRANCHES
        if repeats:
            self._begin_loop(node)
        self._branches += branches
        ends: _Ends = (self._folders, self._folders)
        for child in node.children if node.type != "comment" else ():
            if child.is_named and child.type not in _SILENT:
                kept = dict(self._variables)
                ends = self._run(child, start)
                self._folders = _either(*ends)
                if child.next_sibling is not None and child.next_sibling.type == "&":
                    self._variables = kept  # it was set in a separate shell
        self._branches -= branches
        if node.type in ("while_statement", "do_group", "if_statement", "case_statement"):
            # It may not have run at all, or may have run again from where it ended.
            self.whole = self.whole and not (repeats and self._folders != before)
            self._folders = before if self._folders == before else None
            return self._folders, self._folders
        return ends

    def _begin_loop(self, node: ShellNode) -> None:
        """Forget the values of variables that a loop may have changed when its next round
        begins."""
        for one in _descend(node):
            if one.type in ("for_statement", "select_statement"):
                for name in one.named_children:
                    if name.type == "variable_name":
                        self._variables[self._text(name)] = None
            if one.type == "variable_assignment":
                named = one.child_by_field_name("name")
                self._variables[self._text(named) if named is not None else ""] = None
            elif one.type == "command_name" and base_name(self._text(one)) in _MOVING:
                self.whole = False  # the next round begins in another folder

    def _run_list(self, node: ShellNode, start: _Start, last: _Start | None = None) -> _Ends:
        """Read parts joined by `&&` and `||`. The redirections in `last` apply only to the last
        part, although the syntax tree puts them around the whole list."""
        parts = [one for one in node.children if one.type != "comment"]
        ok, failed = self._run(parts[0], start)
        self._branches += 1
        for operator, part in zip(parts[1::2], parts[2::2], strict=False):
            begun = last if last is not None and part is parts[-1] else start
            run = partial(self._run, part, begun)
            if begun is last and part.type == "pipeline":
                run = partial(self._run_pipeline, part, start, last)
            if operator.type == "&&":
                self._folders = ok
                ok, then_failed = run()
                failed = _either(failed, then_failed)
            else:
                self._folders = failed
                then_ok, failed = run()
                ok = _either(ok, then_ok)
                if operator.type != "||":
                    self.whole = False
        self._branches -= 1
        return ok, failed

    def _run_pipeline(self, node: ShellNode, start: _Start, last: _Start | None = None) -> _Ends:
        before = self._folders
        ends: _Ends = (before, before)
        fed, given = start.fed_by, start.given
        parts = [one for one in node.children if one.is_named and one.type != "comment"]
        self._branches += 1
        for part in parts:
            self._folders = before
            begin = len(self.steps)
            begun = last if last is not None and part is parts[-1] else start
            told = begun.given if begun is last and begun.given is not None else given
            ends = self._run(part, replace(begun, fed_by=(*fed, *begun.fed_by), given=told))
            went = any(base_name(one.words[0]) in _MOVING for one in self.steps[begin:])
            if went and len(parts) > 1 and part.type == "command":
                self.alike = False  # shells differ on whether the folder stays
            if _is_redirected_list(part) and len(self.steps) > begin:
                before = self.steps[-1].folders  # only the last one of the list is in the pipe
            fed = tuple(range(begin, len(self.steps)))
            given = _read_each(self._said_since(begin))
        self._branches -= 1
        self._folders = _either(before, _either(*ends))  # some shells run the last one in place
        return self._folders, self._folders

    def _run_apart(self, node: ShellNode, start: _Start) -> _Ends:
        """Read the code of a subshell. Its folders and variables are dropped afterwards."""
        kept = self._folders, dict(self._variables), self._sets
        self._run_each(node, start)
        self._folders, self._variables, self._sets = kept
        return self._folders, self._folders

    def _run_negated(self, node: ShellNode, start: _Start) -> _Ends:
        either = _either(*self._run_each(node, start))
        return either, either

    def _run_redirected(self, node: ShellNode, start: _Start) -> _Ends:
        outer = start
        statement: ShellNode | None = None
        piped: list[ShellNode] = []
        for child in node.children:
            if child.type in ("file_redirect", "heredoc_redirect", "herestring_redirect"):
                start = self._redirect(child, start)
                piped += [one for one in child.named_children if one.type in _STATEMENTS
                          and one.type not in ("file_redirect", "herestring_redirect")]  # fmt: skip
            elif child.is_named:
                statement = child
        begin = len(self.steps)
        before = self._folders
        if statement is None:
            self._emit([_Word(":")], start)
            ends: _Ends = (before, before)
        elif statement.type == "list":
            ends = self._run_list(statement, outer, start)
        elif statement.type == "pipeline":
            ends = self._run_pipeline(statement, outer, start)
        else:
            ends = self._run(statement, start)
        if len(self.steps) == begin and (start.writes, start.reads) != (outer.writes, outer.reads):
            self._emit([_Word(":")], start)  # nothing runs, but files are opened
        for one in piped:  # the part after `<<EOF` on its line
            fed, self._folders = tuple(range(begin, len(self.steps))), _either(*ends)
            given = _read_each(self._said_since(begin))
            ends = self._run(one, replace(outer, fed_by=fed, given=given))
        return ends

    def _run_for(self, node: ShellNode, start: _Start) -> _Ends:
        name = next((one for one in node.named_children if one.type == "variable_name"), None)
        values: list[_Word] = []
        for child in node.named_children:
            if child.type not in ("variable_name", "do_group"):
                values += self._expand(child)
        if name is not None:
            plain = len(values) == 1 and values[0].mark is Certainty.PLAIN
            self._set(self._text(name), values[0].text if plain else None)
        loop = [one for one in node.named_children if one.type == "do_group"]
        before = self._folders
        for one in loop:
            self._begin_loop(one)
            self._run(one, replace(start, fed_by=(*start.fed_by, *self._take_fed())))
        self.whole = self.whole and self._folders == before
        return self._folders, self._folders

    def _run_function(self, node: ShellNode, start: _Start) -> _Ends:
        self.whole = False  # it runs later, with other arguments
        body = node.child_by_field_name("body")
        return self._run_apart(body, start) if body is not None else (None, None)

    def _run_test(self, node: ShellNode, start: _Start) -> _Ends:
        """Read `[[ … ]]`, in which only substitutions run, unless it evaluates arithmetic."""
        text = self._text(node)
        self.alike = self.alike and not _OF_TERMINAL.search(text)
        if reckons(_OF_TESTS.sub(r" \1 ", text).split()):
            self.whole = False  # a variable's value there may hold a command
        bare = (one for one in _descend(node) if one.type in _UNQUOTED and not _is_quoted(one))
        if text[:2] != "[[" and any(one.named_children[:1] and one.named_children[0].type
                                    == "variable_name" for one in bare):  # fmt: skip
            self.whole = False  # its value may be several words
        for one in _descend(node):
            if one.type in _SUBSTITUTIONS:
                self._substitute(one)
        self._fed.clear()
        if start.writes or start.reads:
            self._emit([_Word(":")], start)
        return self._folders, self._folders

    # ---------------------------------------------------------------- variables

    def _run_assignment(self, node: ShellNode, start: _Start) -> _Ends:
        for one in node.named_children if node.type == "variable_assignments" else (node,):
            name, value = self._read_assignment(one)
            self._set(name, value)
            self._run_value(name, value, start)
        self._fed.clear()  # the substitutions are steps already
        if start.writes or start.reads:
            self._emit([_Word(":")], start)
        return self._folders, self._folders

    def _run_declaration(self, node: ShellNode, start: _Start) -> _Ends:
        words = [_Word(self._text(node.children[0]))]
        for child in node.named_children:
            if child.type == "variable_assignment":
                name, value = self._read_assignment(child)
                self._set(name, value)
                self._run_value(name, value, start)
                words.append(
                    _Word(
                        f"{name}={value or ''}",
                        Certainty.OPEN if value is None else Certainty.PLAIN,
                    )
                )
            elif child.type == "variable_name":
                self._sets = (*self._sets, self._text(child))
                words.append(_Word(self._text(child)))
            else:
                words += self._expand(child)
        self._emit(words, start)
        return self._folders, self._folders

    def _read_assignment(self, node: ShellNode) -> tuple[str, str | None]:
        """Return the name and the value of `NAME=VALUE`. If only the machine knows the value,
        return None for it."""
        name = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        added = any(one.type == "+=" for one in node.children)
        said = self._value(value) if value is not None else _Word("")
        known = said.mark is not Certainty.OPEN and not added
        return (self._text(name) if name is not None else ""), (said.text if known else None)

    def _run_value(self, name: str, value: str | None, start: _Start) -> None:
        """Read the command in a variable such as `GIT_PAGER`, whose value programs run."""
        if value and is_run(name):
            held = replace(start, wrappers=(*start.wrappers, name), fed_by=(), given=None)
            outer, self._fed = self._fed, []
            self._read_within(value, replace(held, writes=(), reads=()), sure=True)
            self._fed = outer

    def _set(self, name: str, value: str | None) -> None:
        self._variables[name] = None if self._branches else value
        if name not in self._sets:
            self._sets = (*self._sets, name)

    # ---------------------------------------------------------------- commands

    def _run_command(self, node: ShellNode, start: _Start) -> _Ends:
        words: list[_Word] = []
        sets: list[str] = []
        for child in node.named_children:
            if words and self._begins_line(child):  # the grammar joined two commands
                self.whole = False
                self._start(words, replace(start, sets=(*self._sets, *start.sets, *sets)))
                words, sets, start = [], [], replace(start, fed_by=(), given=None)
            if child.type == "variable_assignment":
                name, value = self._read_assignment(child)
                sets.append(name)
                self._run_value(name, value, start)
            elif child.type in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
                start = self._redirect(child, start)
            elif child.type == "command_name":
                for one in child.children:
                    words += self._expand(one)
            elif child.type != "comment":
                words += self._expand(child)
        if words and words[0].text in _KEEPING_SETTINGS:
            self._variables |= dict.fromkeys(sets)  # some shells keep settings before these
        fed = tuple(dict.fromkeys((*start.fed_by, *self._take_fed())))
        sets_now = tuple(dict.fromkeys((*self._sets, *start.sets, *sets)))
        start = replace(start, sets=sets_now, fed_by=fed)
        return self._start(words or [_Word(":")], start)

    def _begins_line(self, node: ShellNode) -> bool:
        before = node.prev_sibling
        between = self._source[before.end_byte : node.start_byte] if before is not None else b""
        return b"\n" in between.replace(b"\\\n", b"")

    def _start(self, words: list[_Word], start: _Start) -> _Ends:
        """Remove the wrappers from a command, and read the program that it finally starts."""
        kept = self._folders
        here: _Ends = (kept, kept)
        while words[0].mark is not Certainty.OPEN:
            found = strip_wrapper([one.text for one in words])
            if found is None or (found.from_input and start.given is None):
                break
            if found.also:
                self._emit(words, start)
            taken = words[: found.begins]
            said = taken if found.begins is not None else words[:1]
            start = replace(
                start,
                wrappers=(*start.wrappers, *found.names),
                wrapping=(
                    *start.wrapping,
                    base_name(words[0].text),
                    *(one.text for one in said[1:]),
                ),
                sets=(*start.sets, *found.sets),
                exact=start.exact
                and found.exact
                and words[0].text[: -len(base_name(words[0].text))] in ("", *_SYSTEMS)
                and all(one.mark is Certainty.PLAIN for one in taken),
            )
            for one in taken[1:]:
                name, _, value = one.text.partition("=")
                self._run_value(name, value, start)
            self._folders = None if found.moves else self._folders
            script = start.given if found.from_input else found.script
            if script is not None:
                self.output_run.update(start.fed_by)
                sure = (
                    found.from_input
                    or found.begins is None
                    or all(one.mark is not Certainty.OPEN for one in words[found.begins :])
                )
                ends = self._read_within(script, start, sure=sure)
                self._folders = kept if found.moves else self._folders
                return here if found.moves else ends
            words = words[found.begins : found.ends]
        self._emit(words, start)
        self._folders = kept
        if base_name(words[0].text) in _GOING:
            to, starts = self._go(words), set(start.wrappers[start.outer :])
            return (to if starts <= _IN_PLACE else _either(kept, to)), kept
        return here

    def _read_within(self, script: str, start: _Start, *, sure: bool) -> _Ends:
        """Read a script that a program gets as text."""
        kept = self._folders, dict(self._variables), self._sets
        inner = replace(start, given=None, depth=start.depth + 1, writes=(), reads=(),
                        outer=len(start.wrappers))  # fmt: skip
        begin = len(self.steps)
        self.whole = self.whole and sure
        self._sets = start.sets
        outer, self._started = self._started, replace(inner, fed_by=(), sets=())
        self.read(script, inner)
        self._started = outer
        if len(self.steps) == begin:
            self._emit([_Word(":")], start)
        elif start.writes or start.reads:
            last = self.steps[-1]
            self.steps[-1] = replace(last, writes=last.writes + start.writes,
                                     reads=last.reads + start.reads)  # fmt: skip
        if start.wrappers[-1] != "eval":
            self._folders, self._variables, self._sets = kept
        return self._folders, self._folders

    def _go(self, words: list[_Word]) -> _Folders:
        operands = [one for one in words[1:] if one.text in ("-", "--") or one.text[:1] != "-"]
        operands = [one for one in operands if one.text != "--"]
        if not operands:
            return ("~",) if base_name(words[0].text) != "pushd" else None
        to = operands[0].text
        if to.startswith("+"):
            return None
        if to.startswith(("/", "~", "$")):
            return (to,)
        if len(operands) > 1 or to == "-" or self._folders is None:
            return None
        return tuple(posixpath.normpath(posixpath.join(one, to)) for one in self._folders)

    def _emit(self, words: Sequence[_Word], start: _Start) -> None:
        if len(self.steps) >= _MOST_STEPS:
            self.whole = False
            return
        if start.fed_by and base_name(words[0].text) in INTERPRETERS and _runs_input(words):
            self.output_run.update(start.fed_by)
        self.steps.append(
            Step(
                words=tuple(one.text for one in words),
                marks=tuple(one.mark for one in words),
                wrappers=start.wrappers,
                wrapping=start.wrapping,
                folders=self._folders,
                sets=start.sets,
                writes=start.writes,
                reads=start.reads,
                fed_by=start.fed_by,
                given=start.given,
                exact=start.exact,
            )
        )

    def _redirect(self, node: ShellNode, start: _Start) -> _Start:
        if node.type == "herestring_redirect":
            said = self._value(node.named_children[-1])
            known = None if said.mark is Certainty.OPEN else f"{said.text}\n"
            return replace(start, given=known, fed_by=(*start.fed_by, *self._take_fed()))
        if node.type == "heredoc_redirect":
            return self._redirect_document(node, start)
        operator = next((self._text(one) for one in node.children if not one.is_named), "")
        targets = node.children_by_field_name("destination")
        if len(targets) != 1:  # a word of the command follows it
            self.whole = self.whole and not targets
        if not targets:
            return start
        said = self._value(targets[0])
        fed = (*start.fed_by, *self._take_fed())
        copied = operator in _COPYING and (said.text.isdecimal() or said.text == "-")
        if said.mark is Certainty.OPEN:
            start = replace(start, exact=False)
        elif copied or _NOWHERE.fullmatch(said.text):
            return replace(start, fed_by=fed)
        if operator in _INPUT:
            return replace(start, reads=(*start.reads, said.text), fed_by=fed)
        return replace(start, writes=(*start.writes, said.text), fed_by=fed)

    def _redirect_document(self, node: ShellNode, start: _Start) -> _Start:
        parts = {one.type: one for one in node.children}
        begins, body, ends = (parts.get(f"heredoc_{one}") for one in ("start", "body", "end"))
        for child in node.named_children:
            if child.type == "file_redirect":
                start = self._redirect(child, start)
            elif not child.type.startswith("heredoc_") and child.type not in _STATEMENTS:
                self.whole = False  # a word of the command, or a mistake of the grammar
        if begins is None or body is None or ends is None:
            self.whole = False
            return start
        if body.start_byte == body.end_byte:  # the grammar took the text for words
            line = self._source.find(b"\n", begins.end_byte) + 1
            text = self._source[line : ends.start_byte].decode("utf-8", "replace")
        elif self._text(begins)[:1] in ("'", '"', "\\"):
            text = self._text(body)
        else:
            raw = self._source[body.start_byte : body.end_byte]
            self.whole = self.whole and not _PROTECTED.search(raw)
            text = self._fill(body, body.start_byte, body.end_byte).text
        return replace(start, given=text, fed_by=(*start.fed_by, *self._take_fed()))

    # ---------------------------------------------------------------- words

    def _expand(self, node: ShellNode) -> list[_Word]:
        """Return the words that a word of the script expands to."""
        said = self._value(node)
        before = node.prev_sibling
        if before is not None and before.is_named and before.end_byte == node.start_byte:
            self.alike = False  # the grammar split a word
        if node.type in _UNQUOTED and said.mark is not Certainty.OPEN:
            words = said.text.split()
            if len(words) > 1:  # zsh does not split it
                return [replace(said, mark=Certainty.OPEN)]
            globs = (Certainty.GLOB if _GLOB.search(one) else Certainty.PLAIN for one in words)
            return [_Word(one, mark) for one, mark in zip(words, globs, strict=True)]
        if node.type in ("word", "concatenation") and "{" in self._text(node):
            found = _split_braces(said)
            known = len(found) > 1 or not self._has_braces(node)
            return found if known else [replace(said, mark=Certainty.OPEN)]
        return [said]

    def _has_braces(self, node: ShellNode) -> bool:
        """Return whether a word has unquoted braces that may expand to several words."""
        parts = node.children if node.type == "concatenation" else [node]
        bare = "".join(self._text(one) for one in parts if one.type == "word")
        return "{" in bare and ("," in bare or ".." in bare)

    def _part(self, node: ShellNode) -> _Word:
        """Return a part of a word. It is marked open if its value may become several words."""
        said = self._value(node)
        splits = node.type in _UNQUOTED and _SPLITS.search(said.text)
        after = node.next_sibling
        behind = self._text(after)[:1] if after is not None else ""
        if node.type == "simple_expansion" and behind in (":", "["):  # zsh reads a modifier
            return replace(said, mark=Certainty.OPEN)
        return replace(said, mark=Certainty.OPEN) if splits else said

    def _value(self, node: ShellNode) -> _Word:
        """Return a word as the program receives it, as far as the script shows."""
        read = _VALUES.get(node.type)
        if read is not None:
            return read(self, node)
        text = self._text(node)
        if node.type == "word" and _LETTER_ESCAPED.search(text):
            self.alike = False  # fish has more escapes
        if not node.is_named or node.type in _LITERAL:
            return _plain(text) if node.is_named else _Word(text)
        self._read_rest(node)
        return _Word(
            text, Certainty.GLOB if node.type in ("extglob_pattern", "regex") else Certainty.OPEN
        )

    def _read_rest(self, node: ShellNode, known: ShellNode | None = None) -> None:
        """Read the substitutions in a word that is not understood, but not those in its `known`
        part."""
        done = {one.id for one in _descend(known)} if known is not None else set()
        for one in _descend(node):
            if one.type in _SUBSTITUTIONS and one.id not in done:
                self._substitute(one)
                self.whole = False
            elif one.type == "subscript" and not _INDEX.fullmatch(self._text(one)):
                self.whole = False  # arithmetic, which may hold a command

    def _fill(self, node: ShellNode, begin: int, end: int) -> _Word:
        """Return the text of double quotes or of a here-document, with its expansions."""
        parts: list[_Word] = []
        at = begin
        for child in node.named_children:
            if child.type in ("string_content", "heredoc_content"):
                continue
            parts += [self._quoted(at, child.start_byte), self._value(child)]
            at = child.end_byte
        return _join([*parts, self._quoted(at, end)])

    def _quoted(self, begin: int, end: int) -> _Word:
        text = self._source[begin:end].decode("utf-8", "replace")
        return _Word(_ESCAPED_IN_QUOTES.sub(lambda one: one[1].replace("\n", ""), text))

    def _raw(self, node: ShellNode) -> _Word:
        """Return the text in single quotes. In fish, the quotes may continue after a backslash."""
        text = self._text(node)[1:-1]
        backslashes = len(text) - len(text.rstrip("\\"))
        self.alike = self.alike and backslashes % 2 == 0
        return _Word(text)

    def _look_up(self, node: ShellNode) -> _Word:
        name = next((one for one in node.named_children if one.type == "variable_name"), None)
        known = self._variables.get(self._text(name)) if name is not None else None
        bare = node.type == "simple_expansion" or node.child_count == 3  # noqa: PLR2004 `${NAME}`
        if known is not None and bare:
            return _Word(known)
        default = [one for one in node.named_children if one is not name]
        if not bare:
            self._read_rest(node, default[-1] if default and known is None else None)
            if any(one.type in ("=", ":=") for one in node.children):
                self.whole = False  # it sets the variable
        if known is None and default and node.type == "expansion":
            return replace(self._value(default[-1]), mark=Certainty.OPEN)
        return _Word(self._text(node) if known is None else known, Certainty.OPEN)

    def _substitute(self, node: ShellNode) -> _Word:
        begin = len(self.steps)
        outer, self._fed = self._fed, []
        self._run_apart(node, replace(self._started, sets=self._sets))
        self._fed = [*outer, *range(begin, len(self.steps))]
        said = self._said_since(begin)
        if node.type == "command_substitution" and said:
            mark = Certainty.PLAIN if len(said) == 1 else Certainty.OPEN
            return _Word(said[0].rstrip("\n"), mark)
        return _Word("$()", Certainty.OPEN)

    def _said_since(self, begin: int) -> tuple[str, ...]:
        """Return the possible output of the last step, if all other steps since `begin` only feed
        it."""
        if len(self.steps) == begin or self.steps[-1].writes:
            return ()
        made = set(range(begin, len(self.steps) - 1))
        return said_by(self.steps[-1]) if made <= set(self.steps[-1].fed_by) else ()

    def _take_fed(self) -> tuple[int, ...]:
        fed, self._fed = tuple(self._fed), []
        return fed

    def _text(self, node: ShellNode) -> str:
        return self._source[node.start_byte : node.end_byte].decode("utf-8", "replace")


_STATEMENTS: dict[str, Callable[[_ScriptReader, ShellNode, _Start], _Ends]] = {
    "command": _ScriptReader._run_command,
    "list": _ScriptReader._run_list,
    "pipeline": _ScriptReader._run_pipeline,
    "subshell": _ScriptReader._run_apart,
    "negated_command": _ScriptReader._run_negated,
    "redirected_statement": _ScriptReader._run_redirected,
    "for_statement": _ScriptReader._run_for,
    "function_definition": _ScriptReader._run_function,
    "test_command": _ScriptReader._run_test,
    "variable_assignment": _ScriptReader._run_assignment,
    "variable_assignments": _ScriptReader._run_assignment,
    "declaration_command": _ScriptReader._run_declaration,
    "unset_command": _ScriptReader._run_declaration,
}


_LITERAL = frozenset({"word", "number", "test_operator", "variable_name", "heredoc_content"})
_VALUES: dict[str, Callable[[_ScriptReader, ShellNode], _Word]] = {
    "raw_string": _ScriptReader._raw,
    "ansi_c_string": lambda reader, node: _undo_ansi_string(reader._text(node)[2:-1]),
    "string": lambda reader, node: reader._fill(node, node.start_byte + 1, node.end_byte - 1),
    "translated_string": lambda reader, node: _join(
        [reader._value(one) for one in node.named_children]
    ),
    "concatenation": lambda reader, node: _join([reader._part(one) for one in node.children]),
    "simple_expansion": _ScriptReader._look_up,
    "expansion": _ScriptReader._look_up,
    "command_substitution": _ScriptReader._substitute,
    "process_substitution": _ScriptReader._substitute,
}


def said_by(step: Step) -> tuple[str, ...]:
    """Return the possible outputs of a step that prints known words: `echo`, `printf`, or `cat`
    with known input. Shells differ on escapes in `echo`, so both outputs are returned."""
    if step.is_open:
        return ()
    if step.words == ("cat",) and not step.reads:
        return () if step.given is None else (step.given,)
    if step.name not in _SAYING:
        return ()
    words = list(step.words[1:])
    if step.name == "printf":
        odd = tuple(f"{one}\n" for one in words if _ODD_ESCAPES.search(one))
        return (*_said_by_printf(words), *odd)  # shells differ
    whole = " ".join(words) + "\n"
    while words and re.fullmatch("-[neE]+", words[0]):
        words.pop(0)
    plain = " ".join(words) + "\n"
    undone = _ANSI.sub(_undo_said, plain)
    return tuple(dict.fromkeys((undone, plain, whole)))


def _said_by_printf(words: list[str]) -> tuple[str, ...]:
    """Return what `printf` prints for one string, or for a format without placeholders."""
    form, *texts = words or [""]
    if form in ("%s", "%s\\n", "%s ", "%b") and len(texts) == 1:
        text = _ANSI.sub(_undo_said, texts[0]) if form == "%b" else texts[0]
        return (f"{text}\n",)
    known = not texts and "%" not in form and form[:1] != "-"
    return (_ANSI.sub(_undo_said, form) + "\n",) if known else ()


def _read_each(texts: Sequence[str]) -> str | None:
    """Return one script that does everything that several scripts do."""
    return "\n".join(texts) if texts else None


def reckons(words: Sequence[str]) -> bool:
    """Return whether a test evaluates a word as arithmetic or a variable, which may run code."""
    return any(
        not _NAME.fullmatch(after)
        if operator in ("-v", "-R")
        else operator in _RECKONING and not (_NUMBER.fullmatch(before) and _NUMBER.fullmatch(after))
        for before, operator, after in zip(words, words[1:], words[2:], strict=False)
    )


def _runs_input(words: Sequence[_Word]) -> bool:
    """Return whether an interpreter runs its input, or a file that is known only on the agent's
    machine."""
    operands = [one for one in words[1:] if one.text[:1] != "-" or one.text == "-"]
    return (
        not operands
        or operands[0].text in ("-", "/dev/stdin")
        or operands[0].mark is Certainty.OPEN
    )


def _plain(text: str) -> _Word:
    unquoted = _ESCAPED.sub(lambda one: one[1].replace("\n", ""), text)
    is_glob = _GLOB.search(_ESCAPED.sub("", text)) is not None
    return _Word(unquoted, Certainty.GLOB if is_glob else Certainty.PLAIN)


def _is_redirected_list(node: ShellNode) -> bool:
    body = node.child_by_field_name("body") if node.type == "redirected_statement" else None
    return body is not None and body.type == "list"


def _reckons_or_differs(text: str) -> bool:
    """Return whether a script has arithmetic or indirect variables, which may run their values, or
    redirections that shells interpret differently."""
    return _RECKONED.search(_PLAIN_SUM.sub("", text)) is not None


def _join(parts: list[_Word]) -> _Word:
    marks = [one.mark for one in parts]
    return _Word(
        "".join(one.text for one in parts),
        max(marks, key=lambda one: one.value, default=Certainty.PLAIN),
    )


def _split_braces(word: _Word) -> list[_Word]:
    """Return the words of `a{b,c}`. They are marked open, because quotes may change their
    meaning."""
    left, done = [word.text], list[str]()
    while left:
        text = left.pop(0)
        found = _BRACES.fullmatch(text)
        if found is None or len(left) + len(done) > _MOST_BRACES:
            done.append(text)
        else:
            left += [f"{found[1]}{one}{found[3]}" for one in found[2].split(",")]
    if len(done) == 1:
        return [replace(word, mark=Certainty.OPEN) if _RANGE.search(word.text) else word]
    return [_Word(one, Certainty.OPEN) for one in done]


def _undo_ansi_string(text: str) -> _Word:
    mark = Certainty.OPEN if _CUTS.search(text) else Certainty.PLAIN
    return _Word(_ANSI.sub(_undo_ansi, text), mark)


def _is_quoted(node: ShellNode) -> bool:
    outer = node.parent
    while outer is not None and outer.type not in ("test_command", "command_substitution"):
        if outer.type == "string":
            return True
        outer = outer.parent
    return False


def _undo_ansi(found: re.Match[str]) -> str:
    said = found[1]
    if said[0] in "xuU" and said[1:]:
        return chr(min(int(said[1:], 16), 0x10FFFF))
    if said[0] in "01234567":
        return chr(int(said, 8) & 0xFF)
    return _ANSI_SIGNS.get(said, said)


def _undo_said(found: re.Match[str]) -> str:
    """Return what `echo` prints for an escape; escaped quotes stay as they are."""
    return found[0] if found[1] in "\"'`$" else _undo_ansi(found)


def _descend(root: ShellNode) -> Iterator[ShellNode]:
    left = [root]
    while left:
        node = left.pop()
        yield node
        left += node.children
