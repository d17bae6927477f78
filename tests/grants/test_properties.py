"""No string outside a grant's language is ever allowed, and every string inside it is.

What is right is said here a second time, by other means: a real bash, the standard library's
`shlex`, `posixpath` and `urllib`. `make test-slow` tries more than 100 000 examples.
"""

from __future__ import annotations

import posixpath
import re
import shlex
import shutil
import string
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.cards.card import card_of
from gateway.cards.remember_options import scopes_of
from gateway.models import Action, Kind
from gateway.policy.calls.known_commands import Operands
from gateway.policy.calls.shell_words import simple_command
from gateway.policy.grants.grant import Match, Scope, Shape
from gateway.policy.grants.line_parts import split
from gateway.policy.grants.offers import offers
from tests.grants.making import allowed, asked, command, granted, offer_of, patterns_of, remembered
from tests.sweeps import sweep

QUICK = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
SLOW = settings(QUICK, max_examples=15_000)
LONG = pytest.mark.timeout(3000)

# Pieces of which both honest and hostile commands are made.
_PIECES = st.sampled_from(
    [
        "git", "log", "status", "cat", "ls", "-n", "--oneline", "5", "a.txt", "src/b.py", "-",
        "--", "=", " ", " ", " ", "  ", "\t", "\n", "\r", "'", '"', "\\", "`", "$", "$(", ")",
        "(", "{", "}", "[", "]", ";", "&", "|", "<", ">", "#", "!", "~", "*", "?", "^", "%", "@",
        "+", ",", ":", "..", "/", "/ws", "../", ".env", "touch M", "${IFS}", "$'", '$"', "é",
        "\u200b", "\u202e", "\u00a0", "if", "then", "A=1", "=ls", "-exec", "--output=M", "'a b'",
        '"c d"', "\x00", "\x0b", "\U0001f600", "<<E", "1>",
    ]
)  # fmt: skip
HOSTILE = st.lists(_PIECES, max_size=12).map("".join)
_TEXT = st.one_of(HOSTILE, HOSTILE, st.text(max_size=30))
_WORD = st.text(string.ascii_letters + string.digits + "_./-+:@%,", min_size=1, max_size=8)
# Names that nobody keeps secrets under.
_NAME = st.text(string.ascii_letters + string.digits + "_", max_size=8).map("n{}n".format)


class Bash:
    """A real bash that says which words it makes of a string."""

    def __init__(self) -> None:
        script = (
            'say() { printf "%s\\0" "$#" "$@"; }; PATH=/nonexistent; '
            'while IFS= read -r -d "" s; do eval "say $s"; done'
        )
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"LC_ALL": "C.UTF-8", "HOME": "/nowhere", "PWD": "/"},
        )

    def words(self, text: str) -> list[str]:
        """Return the words, without running any."""
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode() + b"\0")
        self._process.stdin.flush()
        return [self._field() for _ in range(int(self._field()))]

    def _field(self) -> str:
        assert self._process.stdout is not None
        found = b""
        while (char := self._process.stdout.read(1)) != b"\0":
            assert char, "bash ended"
            found += char
        return found.decode()

    def close(self) -> None:
        """End it."""
        self._process.communicate()


@pytest.fixture(scope="module")
def bash() -> Iterator[Bash]:
    """Return a running bash; it only ever splits what the product says is plain."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash here")
    shell = Bash()
    yield shell
    shell.close()


def check_bash(bash: Bash, text: str) -> None:
    """What is read as one plain command is the same words to bash."""
    words = simple_command(text)
    if words is not None:
        assert bash.words(text) == [word.text for word in words]


def check_cat(text: str) -> None:
    """`cat` covers its flags, and paths that stay in the folder by every reading."""
    covered = [match for match in patterns_of("cat -n a.txt") if _covers(match, text)]
    if covered:
        assert _plain_by_shlex(text)
        program, *rest = shlex.split(text)
        assert program == "cat"
        for word in rest:
            assert re.fullmatch(r"-[nbsAETvet]+|--number|--show-all|--", word) or _inside(word)


def check_log(text: str) -> None:
    """The narrow `git log` covers two flags and nothing else."""
    narrow, _ = patterns_of("git log --oneline -n 5")
    if _covers(narrow, text):
        assert _plain_by_shlex(text)
        assert re.fullmatch(r"git +log( +(--oneline|-n *['\"]?[0-9]+['\"]?|--))*", text)


def check_echo(text: str) -> None:
    """Whatever follows `echo`, no shell would do anything but print it."""
    if any(_covers(match, f"echo {text}") for match in patterns_of("echo a")):
        assert _plain_by_shlex(f"echo {text}")


def check_folder(path: str) -> None:
    """A folder covers what `posixpath` puts inside it."""
    made = offers(asked("read", arguments={"path": "/ws/in/a"}))
    folder = granted(next(one.match for one in made if one.match.scope is Scope.FOLDER))
    if allowed([folder], asked("read", arguments={"path": path})):
        assert _inside(path, "/ws/in")
        assert ".." not in path.split("/")
        assert not any(char in path for char in "\x00\n\u200b\u202e\\")


def check_inside(value: tuple[list[str], list[str], bool]) -> None:
    """Every spelling of the permitted flags and paths is covered."""
    flags, paths, quoted = value
    words = [
        "cat",
        *flags,
        *(shlex.quote(f"d/{path}") if quoted else f"d/{path}" for path in paths),
    ]
    text = " ".join(words)
    wide = patterns_of("cat -n a.txt")[-1]
    assert _covers(wide, text), text
    listed = command("", arguments={"argv": ["cat", "-n", "a.txt"]})
    words = ["cat", *flags, *(f"d/{path}" for path in paths)]
    assert allowed([remembered(listed)], command("", arguments={"argv": words}))


def check_spoilt(value: tuple[str, str, int]) -> None:
    """A permitted command with anything that a shell acts upon put into it is covered no more."""
    text, spoiler, at = value
    place = at % (len(text) + 1)
    spoilt = text[:place] + spoiler + text[place:]
    for match in (*patterns_of("git log --oneline -n 5"), *patterns_of("cat -n a.txt")):
        assert not _covers(match, spoilt), spoilt


def check_offers(text: str) -> None:
    """Each offer covers the request that it was made from, and no other environment or payload. For
    a line with one command, blanks around it say, that is the command alone."""
    record = command(text) if text.isprintable() else command("ls")
    alone = [call for part in split(record) for way in part.ways for call in way]
    for offer in offers(record):
        assert any(allowed([granted(offer.match)], one) for one in (record, *alone))
        if offer.match.shape is not Shape.EXACT:
            more = {"kind": Kind.COMMAND, "arguments": record.arguments, "payload": {"x": 1}}
            assert not allowed([granted(offer.match)], asked("shell", **more))


_INSIDE = st.tuples(
    st.lists(st.sampled_from(["-n", "-b", "-s", "-nb", "--number", "-A"]), max_size=3),
    st.lists(_NAME, min_size=1, max_size=3),
    st.booleans(),
)
_SPOILT = st.tuples(
    st.sampled_from(["git log --oneline -n 5", "git log", "cat -n a.txt", "cat a.txt b.txt"]),
    st.sampled_from(
        [
            ";", "&", "|", "<", ">", "`", "$(x)", "$x", "\n", "\r", "\x00", "\\", "(", ")", "{",
            "*", "?", "[", "#", "!", "\u200b", "\u00a0", "'", '"', "^", "\t",
        ]
    ),
    st.integers(0, 40),
)  # fmt: skip
PROPERTIES: dict[str, tuple[Callable[[Any], None], st.SearchStrategy[Any]]] = {
    "cat": (check_cat, st.one_of(_TEXT, _TEXT.map("cat {}".format))),
    "git log": (check_log, st.one_of(_TEXT, _TEXT.map("git log {}".format))),
    "echo": (check_echo, _TEXT),
    "folder": (check_folder, st.one_of(_TEXT, _TEXT.map("/ws/in{}".format))),
    "inside": (check_inside, _INSIDE),
    "spoilt": (check_spoilt, _SPOILT),
    "offers": (check_offers, _TEXT),
}


@sweep("examples", (40, 150), few=1)
@pytest.mark.parametrize("name", PROPERTIES)
def test_property(name: str, examples: int) -> None:
    """Each property of the language holds for that many examples."""
    _hold(name, settings(QUICK, max_examples=examples))


@pytest.mark.slow
@LONG
@pytest.mark.parametrize("name", PROPERTIES)
def test_property_at_length(name: str) -> None:
    """Each property holds for 15 000 examples, 120 000 together."""
    _hold(name, SLOW)


def test_bash_reads_alike(bash: Bash) -> None:
    """A real bash agrees with every reading."""
    QUICK(given(_TEXT)(lambda text: check_bash(bash, text)))()


@pytest.mark.slow
@LONG
def test_bash_reads_alike_at_length(bash: Bash) -> None:
    """A real bash agrees with 20 000 readings."""
    settings(QUICK, max_examples=20_000)(given(_TEXT)(lambda text: check_bash(bash, text)))()


def test_a_fixed_operand_is_the_same_words() -> None:
    """`make test` is not `make deploy`, nor `make test deploy`."""
    match = offer_of(command("make test")).match
    pattern = match.rules[0].command
    assert pattern is not None
    assert (pattern.operands, pattern.words) == (Operands.FIXED, ("test",))
    assert _covers(match, "make test")
    for text in (
        "make deploy",
        "make test deploy",
        "make",
        "make -f x test",
        "make SHELL=./x test",
    ):
        assert not _covers(match, text)


def _hold(name: str, how: settings) -> None:
    check, strategy = PROPERTIES[name]
    how(given(strategy)(check))()


def _covers(match: Match, text: Any) -> bool:
    return allowed([granted(match)], command(text))


def _inside(path: str, folder: str = "/ws") -> bool:
    whole = posixpath.normpath(posixpath.join("/ws", path))
    return whole == folder or whole.startswith(f"{folder}/")


def _plain_by_shlex(text: str) -> bool:
    """Whether the standard library's lexer sees words only, no punctuation that a shell acts on."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", text)
    active = set("`$;&|<>(){}[]*?!#\\\n\r\t^'\"")
    return (
        list(lexer) == shlex.split(text)
        and not active & set(bare)
        and "$" not in re.sub(r"'[^']*'", "", text)
    )


@given(HOSTILE)
@QUICK
def test_a_card_says_whether_anything_may_be_remembered(text: str) -> None:
    """It does so without looking for all that may be; the two never differ."""
    record = command(text)
    offered = {action for action in Action if scopes_of(record, action)}
    assert card_of(record, lines=10**9, chars=10**9).remembers == offered
