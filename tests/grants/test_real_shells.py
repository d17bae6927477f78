"""What a grant allows, given to real shells and real programs: they run that, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gateway.policy.calls.command_lines import read_line
from gateway.policy.calls.known_commands import Operands, table
from gateway.policy.calls.shell_words import simple_command
from gateway.policy.grants.grant import Shape
from gateway.policy.grants.offers import offers
from tests.grants.making import command
from tests.grants.shells import BUILT_IN, PRESENT, Scratch, known_commands
from tests.grants.test_everyday import EVERYDAY
from tests.grants.test_hostile_inputs import ASK
from tests.grants.test_properties import HOSTILE

pytestmark = pytest.mark.thorough

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
SLOW = settings(QUICK, max_examples=4_000)
LONG = pytest.mark.timeout(3000)
MANY = 10

# These write nothing whatever their flags are; the rest of the table builds, tests or changes.
READERS = (
    "ls", "cat", "head", "tail", "wc", "nl", "tac", "stat", "file", "tree", "cut", "sort", "comm",
    "diff", "cmp", "md5sum", "sha256sum", "grep", "rg", "sed", "jq", "find", "df", "du", "date",
    "uname", "id", "basename", "dirname", "realpath", "readlink",
)  # fmt: skip


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    """Return a folder with stubs."""
    return Scratch(tmp_path_factory.mktemp("shells"))


def allowed_by_some_grant(text: str) -> bool:
    """Whether somebody could remember this as a pattern."""
    return any(offer.match.shape is Shape.PATTERN for offer in offers(command(text)))


def check(scratch: Scratch, shell: str, text: str) -> None:
    """What a grant allows is one call of one program with exactly the words that were read."""
    if not text.isprintable() or not allowed_by_some_grant(text):
        return
    words = [word.text for word in simple_command(text) or ()]
    if not words:  # a line with one command
        steps = [one for one in read_line(text) if one.words[0] != "cd" and not one.writes]
        if len(steps) != 1:
            return
        words = list(steps[0].words)
    wanted = [] if words[0] in BUILT_IN else [words]
    found = scratch.calls(shell, text)
    assert found == wanted or (words[0] in BUILT_IN and found == [words]), text
    assert scratch.untouched, text


TEXTS = st.one_of(known_commands(), known_commands(), HOSTILE.map("git log {}".format), HOSTILE)


@pytest.mark.parametrize("shell", PRESENT)
def test_a_real_shell_runs_what_was_read(scratch: Scratch, shell: str) -> None:
    """Each shell that is installed, bash also as if it was typed, calls just that program."""
    QUICK(given(TEXTS)(lambda text: check(scratch, shell, text)))()


@pytest.mark.slow
@LONG
@pytest.mark.parametrize("shell", PRESENT)
def test_a_real_shell_runs_what_was_read_at_length(scratch: Scratch, shell: str) -> None:
    """The same for 4 000 commands a shell."""
    SLOW(given(TEXTS)(lambda text: check(scratch, shell, text)))()


def test_everyday_commands_run_as_they_were_read(scratch: Scratch) -> None:
    """The positive control: the harness sees calls, and they are those of the table."""
    for _, text in EVERYDAY:
        assert allowed_by_some_grant(text), text
        check(scratch, "bash", text)
    assert scratch.calls("bash", "ls -l; cat a.txt") == [["ls", "-l"], ["cat", "a.txt"]]
    assert scratch.calls("bash typed", "ls !!") == [["ls", "stub2", "touch", "M"]]


def test_known_bypasses_would_have_run_something(tmp_path: Path) -> None:
    """The harness is worth something: to a real bash many of these run more than they show."""
    scratch = Scratch(tmp_path)
    plain = {text: [[word for word in text.split(" ") if word]] for text in ASK.values()}
    more = [text for text, words in plain.items() if scratch.calls("bash", text) not in ([], words)]
    assert len(more) > MANY
    assert not scratch.untouched


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a few files, for real programs to read."""
    folder = tmp_path_factory.mktemp("real")
    for name in ("a.txt", "b.txt", "src/b.py", "x", "main", "1"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text('{"a": [1, 2]}\n')
    return folder


def listing(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder, with what stands in them."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check_reader(real: Path, program: str, text: str) -> None:
    """A program that only reads has written nothing, whichever of its permitted flags it got."""
    assume(text.isprintable() and allowed_by_some_grant(text))
    words = [word.text for word in simple_command(text) or ()]
    before = listing(real)
    subprocess.run(
        [shutil.which(program) or program, *words[1:]],
        cwd=real,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
        env={"PATH": "/nowhere", "HOME": str(real)},
    )
    assert listing(real) == before, text


def _reads(program: str) -> st.SearchStrategy[str]:
    known = [one for one in table() if one.program == program]
    return st.sampled_from(known).flatmap(known_commands)


@pytest.mark.parametrize("program", [name for name in READERS if shutil.which(name)])
def test_no_permitted_flag_of_a_reader_writes(real: Path, program: str) -> None:
    """Real programs, where they are installed: `tree -Io x M` wrote M once."""
    few = settings(QUICK, max_examples=8)
    few(given(_reads(program))(lambda text: check_reader(real, program, text)))()


@pytest.mark.slow
@LONG
@pytest.mark.parametrize("program", [name for name in READERS if shutil.which(name)])
def test_no_permitted_flag_of_a_reader_writes_at_length(real: Path, program: str) -> None:
    """The same for 200 commands a program."""
    many = settings(QUICK, max_examples=200)
    many(given(_reads(program))(lambda text: check_reader(real, program, text)))()


def test_every_entry_of_the_table_can_be_remembered() -> None:
    """A line that no command fits would be dead: each is offered for some command."""
    sample = {
        Operands.NONE: "", Operands.PATHS: "./a", Operands.NAMES: "main", Operands.FIXED: "x",
        Operands.TEXT: "+%F", Operands.TEXT_PATHS: "1p a", Operands.LOCAL: "localhost:8000/a",
    }  # fmt: skip
    dead = []
    for known in table():
        text = " ".join((known.program, *known.verbs, sample[known.operands])).strip()
        if not allowed_by_some_grant(text):
            dead.append(text)
    assert dead == []
