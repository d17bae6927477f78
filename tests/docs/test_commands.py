"""Every command that a page prints does what it says: typed here, or run by another test."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.cli.test_adapters import install
from tests.docs.commands import (
    SHORT,
    commands_of,
    options_of,
    our_commands,
    pages,
    printed,
    sections,
)
from tests.docs.documented import COMMANDS, ELSEWHERE, NOT_HERE, START, Line
from tests.docs.reader import POLICY, Reader
from tests.docs.test_examples import blocks
from tests.docs.test_promises import check
from tests.frame.tree import ROOT

pytestmark = [
    pytest.mark.xdist_group("commands"),
    pytest.mark.thorough,
]  # one gateway for all of them

TESTS = re.compile(r"(?:\w+=\w+ )?(?:\S*python -m )?pytest (.*)")
"""A command that runs tests, which are its proof."""
OTHERS = {"--dry-run", "--fix", "--bare", "--dangerously-skip-permissions"}
"""Options of programs that agents run."""
TYPED_ELSEWHERE = {
    "--number": "cli/test_answering.py::test_a_number_is_typed_with_the_approval",
    "--reveal": "cli/test_answering.py::test_secrets_are_shown_to_who_asks_for_them",
}
"""Options that another test types, with its name below tests/."""
PROGRAMS = {"curl", "make"}
"""What a machine may lack; under CI it has everything."""
OPEN = re.compile(r"[A-Z]+(=[A-Z]+)?")
"""A word of a form for which something else is typed."""


def lines_of(entry: Line | list[Line]) -> list[Line]:
    """Return what is typed for a command."""
    return entry if isinstance(entry, list) else [entry]


@pytest.fixture
def here(reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """Return the reader in a folder that has what the pages speak of."""
    monkeypatch.chdir(tmp_path)
    reader.begin(tmp_path)
    return reader


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_does_what_its_page_says(here: Reader, command: str) -> None:
    """Typed as it is printed, it ends with that code and says that; what comes after shows it."""
    for program in PROGRAMS & set(command.split()):
        if shutil.which(program) is None and os.environ.get("CI") != "true":
            pytest.skip(f"{program} is not installed; under CI=true this is a failure")
    for line in lines_of(COMMANDS[command]):
        for before in line.first:
            code, said = here.type(before)
            assert code == (6 if "--no-wait" in before else 0), said
        typed = line.typed or command
        code, said = here.ask(typed, line.answer) if line.answer else here.type(typed)
        assert code == line.code, (typed, said)
        assert re.search(line.says, said, re.MULTILINE), (typed, said)
        for after in line.then:
            code, said = here.type(after)
            assert code == 0, (after, said)


def test_every_command_of_the_pages_is_proven() -> None:
    """In exactly one place; and no place has one that is printed nowhere."""
    reasons = [command for commands in NOT_HERE.values() for command in commands]
    tests = [command for command in printed() if TESTS.fullmatch(command)]
    proven = Counter([*COMMANDS, *ELSEWHERE, *reasons, *tests, START])
    assert {command: where for command, where in printed().items() if command not in proven} == {}
    assert proven.keys() - printed().keys() == set()
    assert [command for command, times in proven.items() if times > 1] == []


SAMPLE = """
Run `make`, or in short
`gateway new
ID`; `gateway`, `curl` and `a command` are none.

```sh
export A=b
A=b gateway up       # a comment
curl -d @- "$URL" \\
     -H x <<END
{"a": 1}
END
```
 ```console
 $ x=$(gateway ask a) && b
 gateway: said
 ```
```json
{"command": "gateway ask --hook x", "n": "gateway"}
```
"""


def test_a_command_is_found_wherever_it_is_printed() -> None:
    """In blocks, after a prompt, in settings, in sentences and in rows; nothing else is."""
    found = set(commands_of(SAMPLE))
    assert found == {
        "make",
        "gateway new ID",
        "A=b gateway up",
        'curl -d @- "$URL" -H x <<END',
        "x=$(gateway ask a) && b",
        "gateway ask --hook x",
    }
    page = (
        "# A\n## up\n`--x N`, `grant show`\n\n## Next\n`apply` `apply F`\n## grant list\nLists.\n"
    )
    short = set(commands_of(page, short=True))
    assert short - found == {
        f"gateway {one}" for one in ("up", "grant list", "grant show", "apply F")
    }
    assert sections(page) == [("gateway up", {"--x"}), ("gateway grant list", set())]


def test_what_is_typed_for_a_form_has_all_of_its_words() -> None:
    """A form in brackets is typed with each of its options and in each of its ways."""
    for form, entry in COMMANDS.items():
        if not isinstance(entry, list):
            continue
        typed = " ".join(line.typed for line in entry)
        words = set(re.split(r"[][|… ]+", form)) - {""}
        assert {word for word in words if not OPEN.fullmatch(word)} <= set(typed.split()), form


def test_every_option_that_a_page_names_is_ours() -> None:
    """Of some command of the gateway, or of an adapter; the few of other programs are listed."""
    ours = set().union(*our_commands().values())
    named = {option for text in pages().values() for option in options_of(text)}
    assert named - ours == OTHERS


def test_every_option_of_a_command_is_typed() -> None:
    """Here, or by the tests of a command that runs elsewhere; two of those have tests of options
    alone."""
    for command, options in sections(pages()[SHORT]):
        if command not in ELSEWHERE:
            missing = options - typed_with(command) - TYPED_ELSEWHERE.keys()
            assert missing == set(), command
    for option, name in TYPED_ELSEWHERE.items():
        check(name)
        assert option in (ROOT / "tests" / name.partition("::")[0]).read_text(encoding="utf-8")


def typed_with(command: str) -> set[str]:
    """Return the options with which a command is typed here."""
    lines = [(form, line) for form, entry in COMMANDS.items() for line in lines_of(entry)]
    typed = [one for form, line in lines for one in (line.typed or form, *line.first, *line.then)]
    parts = re.findall(rf"{command}(?= )([^|&;\n]*)", "\n".join(typed))
    return {word for rest in parts for word in re.findall("--[a-z-]+", rest)}


def test_the_other_tests_are_there() -> None:
    """Each is one that is not skipped, and that `make test` runs."""
    for name in ELSEWHERE.values():
        check(name)


def test_the_tests_that_pages_run_are_there() -> None:
    """The files are, and what `-k` names is in one of them."""
    for command in printed():
        found = TESTS.fullmatch(command)
        words = found[1].split() if found else []
        paths = [ROOT / word for word in words if word.startswith("tests/")]
        for path in paths:
            assert path.exists(), command
        files = [one for path in paths for one in ([path] if path.is_file() else path.glob("*.py"))]
        wanted = words[words.index("-k") + 1] if "-k" in words else ""
        assert not wanted or any(f"_{wanted}" in file.read_text() for file in files), command


def test_make_knows_its_targets() -> None:
    """A dry run of each command for make reads its rules, and runs none."""
    lines = [one for one in printed() if re.match("make |make$", one)]
    targets = {word for line in lines for word in line.partition(" &&")[0].split()[1:]}
    assert targets
    done = subprocess.run(
        ["make", "-n", *targets], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_pager_of_the_page_adds_its_command(here: Reader, tmp_path: Path) -> None:
    """Installed as the page says, it is called as the page says."""
    ((_, module),) = blocks(SHORT)
    install(tmp_path / "site", "the_module", module, {"pager": "the_module:PagerAdapter"})
    code, said = here.type(f"PYTHONPATH={tmp_path / 'site'} gateway pager test ana")
    assert (code, said) == (0, "a test message went to ana\n")


def test_a_first_start_with_a_policy_file_makes_no_owner(tmp_path: Path) -> None:
    """The token that `gateway approver add owner` prints then is the way in, as the page says."""
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY, encoding="utf-8")
    shell = Shell(tmp_path)
    gateway = shell.popen("up", env={"GATEWAY_POLICY_FILE": str(policy)})
    assert gateway.stderr is not None
    while "is ready at " not in (line := gateway.stderr.readline()):
        assert line
    assert shell.call("pending")[0] != 0
    token = json.loads(shell.run("approver", "add", "owner", "--json"))["token"]
    env = {"GATEWAY_APPROVER_TOKEN": token, "GATEWAY_URL": line.split(" · ")[0].split()[-1]}
    assert shell.run("pending", env=env) == "nothing waits\n"
    gateway.terminate()
    gateway.communicate(timeout=20)
