"""The inputs with which remembered approvals were broken elsewhere: each must ask a person.

The numbers are those of the table of test inputs that the project keeps; M is a marker file that
would be written if the hidden part ran.
"""

from dataclasses import replace
from typing import Any

import pytest

from gateway.models import Context, Kind, Risk, RiskLevel, digest_of
from gateway.policy.grants.coverage import covers
from gateway.policy.grants.grant import Effect, MatchResult, Shape
from gateway.policy.grants.line_parts import split
from gateway.policy.grants.offers import offers
from tests.grants.making import allowed, asked, command, granted, offer_of, remembered
from tests.world import request

# Everything that the table's remembered templates say, each as wide as it is ever offered.
TEMPLATES = [
    remembered(command(text))
    for text in (
        "git status",
        "git log",
        "ls -l",
        "ls a",
        "cat a",
        "echo a",
        "rg a b",
        "find . -name a",
        "sed -n 1p a",
        "go test ./...",
    )
]
ASK = {
    "1 sequence": "git status; touch M",
    "2 and": "git status && touch M",
    "3 background": "git status & touch M",
    "4 line feed": "git status\ntouch M",
    "5 substitution": "echo $(touch M)",
    "6 backquotes": "echo `touch M`",
    "7 substitution in quotes": 'echo "x $(touch M)"',
    "8 here-document": "cat <<EOF\n$(touch M)\nEOF",
    "9 redirection": "echo x >M",
    "10 both streams": "echo x &>M",
    "11 field separator": "touch${IFS}M",
    "12 braces": "{touch,M}",
    "13 quoted flag": "rm '-rf' x",
    "14 eval": 'eval "$(echo dG91Y2ggTQ==|base64 -d)"',
    "15 find -exec": "find . -exec touch M \\;",
    "15 find -exec, plus": "find . -exec touch M +",
    "15 find -delete": "find . -delete",
    "15 find -fprintf": "find . -fprintf M x",
    "16 sed e": "sed '1e touch M' f",
    "16 sed w": "sed -n 'w M' f",
    "16 sed -i": "sed -i 1p f",
    "17 rg --pre": "rg --pre ./p x",
    "17 rg --hostname-bin": "rg --hostname-bin=./p x",
    "18 git -c": "git -c alias.x='!touch M' x",
    "18 git -C": "git -C /tmp status",
    "18 git --git-dir": "git --git-dir=/tmp/x status",
    "19 upload-pack": "git ls-remote --upload-pack='touch M;false' .",
    "20 go test -exec": "go test -exec ./p ./...",
    "20 go test -exec=": "go test -exec=./p ./...",
    "20 go test -toolexec": "go test -toolexec ./p ./...",
    "20 go test -o": "go test -o M ./...",
    "21 env -S": "env -S 'touch M'",
    "21 timeout": "timeout 5 touch M",
    "22 proxy command": "ssh -oProxyCommand='touch M' h",
    "23 preload": "LD_PRELOAD=./x ls",
    "23 pager": "GIT_PAGER=./p git -p log",
    "24 relative program": "./ls",
    "24 other case": "LS",
    "38 zero width": "ls\u200b",
    "38 bidi": "ls \u202etxt.exe",
    "38 hangul filler": "ls \u3164",
    "38 tag": "ls \U000e0072",
    "38 variation selector": "ls a\ufe0f",
    "39 cyrillic": "\u0441at a",
    "39 long s": "\u017fudo ls",
}
MORE = {
    "a pipe": "ls | sh",
    "a pipe with errors": "ls |& sh",
    "or": "ls || touch M",
    "a subshell": "(touch M)",
    "a group": "{ touch M; }",
    "process substitution": "cat <(touch M)",
    "a here-string": "cat <<<x",
    "input": "cat <M",
    "appending": "echo x >>M",
    "clobbering": "echo x >|M",
    "a descriptor": "ls 2>M",
    "arithmetic": "echo $((1))",
    "a variable": "cat $HOME",
    "a variable in quotes": 'cat "$HOME"',
    "ANSI quotes": "echo $'a'",
    "translated quotes": 'echo $"a"',
    "an escaped backslash": "echo 'a\\\\b'",
    "an escape before the quote": "echo 'a\\'",
    "an escape": "ls \\-la",
    "a continuation": "ls \\\n-la",
    "an escaped quote": 'echo "a\\"b"',
    "history": "echo !!",
    "history in quotes": 'echo "!x"',
    "a glob": "ls *",
    "a glob of one": "ls ?",
    "a glob set": "ls [a]",
    "a brace": "ls {a,b}",
    "a range": "ls {1..9}",
    "home": "ls ~",
    "a home": "ls ~root",
    "zsh equals": "ls =ls",
    "a comment": "ls # x",
    "negation": "! ls",
    "time": "time ls",
    "exec": "exec ls",
    "command": "command ls",
    "builtin": "builtin echo x",
    "a coprocess": "coproc ls",
    "a function": "ls() { touch M; }",
    "a test": "[[ -f a ]]",
    "a loop": "while ls; do ls; done",
    "sudo": "sudo ls",
    "nohup": "nohup ls",
    "xargs": "xargs ls",
    "busybox": "busybox ls",
    "a shell": "sh -c ls",
    "an interpreter": "python3 -c 'print()'",
    "carriage return": "ls\r",
    "form feed": "ls\x0c-la",
    "vertical tab": "ls\x0b-la",
    "a tab": "ls\t-la",
    "NUL": "ls\x00",
    "no-break space": "ls\u00a0-la",
    "ideographic space": "ls\u3000-la",
    "a trailing line feed": "ls\n",
    "a leading space": " ls",
    "nothing": "",
    "only spaces": "  ",
    "an unclosed quote": "echo 'a",
    "a quoted program": "'ls' -l",
    "a program in pieces": "l''s",
    "an absolute program": "/bin/ls",
    "a quoted verb": "git 'status'",
    "a flag in pieces": "ls -'l'a",
    "an unknown flag": "ls --hyperlink",
    "an abbreviated flag": "git status --sho",
    "an unknown letter": "ls -lZ",
    "a flag's missing value": "git log -n",
    "a flag where the value goes": "rg x -A -B",
    "a value of another kind": "git log -n x",
    "a flag behind the dashes": "ls -- -la",
    "output": "git log --output=M",
    "external diff": "git log --ext-diff",
    "a climbing path": "cat ../x",
    "a climbing path, later": "cat a/../../x",
    "an outside path": "cat /etc/passwd",
    "an outside path for rg": "rg root /etc/passwd",
    "a pattern file": "rg -f /etc/passwd x",
    "keys": "cat .ssh/id_rsa",
    "an environment file": "cat .env",
    "hooks": "ls .git/hooks",
    "standard input": "cat -",
    "too many words": "echo" + " a" * 64,
    "too long": "echo " + "a" * 5000,
    "another verb": "git stash drop",
    "no verb": "git",
    "half an emoji's joiner": "echo 'a\u200db'",
}  # fmt: skip


@pytest.mark.parametrize("name", ASK | MORE)
def test_no_template_covers_what_could_run_more(name: str) -> None:
    """Each known bypass, as a string and as one word of a list, is asked about."""
    text = (ASK | MORE)[name]
    assert not allowed(TEMPLATES, command(text))
    assert not allowed(TEMPLATES, command([text]))


@pytest.mark.parametrize("name", [name for name in ASK | MORE if name[:2] not in ("24", "13")])
def test_nothing_wider_than_the_words_is_offered(name: str) -> None:
    """An approver of such a command may remember those bytes, what its one part would be offered
    alone, or nothing."""
    record = command((ASK | MORE)[name])
    matches = [offer.match for offer in offers(record) if offer.match.shape is not Shape.EXACT]
    if name in _READ_BUT_NOT_REMEMBERED:
        return
    alone = [offer.match for part in split(record) for way in part.ways for one in way
             for offer in offers(one)]  # fmt: skip
    assert all(one in alone for one in matches)
    assert not matches or (name in TAKEN_APART and len(split(record)) == 1)


# Of these the one command that is at work may be remembered: shells agree on what it is.
TAKEN_APART = frozenset(
    {"18 git -C", "21 timeout", "a leading space", "a quoted program", "a quoted verb",
     "a subshell", "a tab", "a trailing line feed", "command", "time"}
)  # fmt: skip


# These are commands with patterns of their own; only the templates above do not cover them.
_READ_BUT_NOT_REMEMBERED = frozenset({"16 sed -i"})


@pytest.mark.parametrize(
    "parts", [["ls", "; touch M"], ["ls", "$(touch M)"], ["ls", "a b"], [], [1]]
)
def test_an_argument_list_needs_no_quoting_anywhere(parts: list[object]) -> None:
    """A list that somebody may join to a string is read only where that changes nothing."""
    assert not allowed(TEMPLATES, command(parts))


def test_row_11_and_12_a_deny_is_not_escaped_by_spelling() -> None:
    """What cannot be read might be what is denied: it is unsure, so no allow may win."""
    deny = remembered(command("touch M"), effect=Effect.DENY)
    for text in ("touch${IFS}M", "{touch,M}", "ls; touch M", "env touch M", "'touch' M", "TOUCH M"):
        assert covers(deny, command(text)) is not MatchResult.NO, text
    assert covers(deny, command("touch N")) is MatchResult.YES
    assert covers(deny, command("ls touch")) is MatchResult.NO


def test_row_13_a_quoted_flag_is_asked_about() -> None:
    """The deny of `rm -rf` covers its plain spellings; a quoted one is nobody's but a person's."""
    deny = remembered(command("rm -r -f y"), effect=Effect.DENY)
    narrow = granted(offers(command("rm -r -f y"), Effect.DENY)[1].match, Effect.DENY)
    assert covers(deny, command("rm -rf x")) is MatchResult.YES
    assert covers(narrow, command("rm -rf x")) is MatchResult.YES
    assert covers(narrow, command("rm -i x")) is MatchResult.NO
    assert covers(narrow, command("rm --recursive --force x")) is MatchResult.UNSURE
    assert covers(narrow, command("rm '-rf' x")) is MatchResult.UNSURE


def test_row_23_a_changed_environment_is_asked_about() -> None:
    """A pattern speaks of arguments only; what LD_PRELOAD does nobody remembered."""
    where = Context(cwd="/ws", env={"LD_PRELOAD": "./x"})
    assert not allowed(TEMPLATES, command("ls", context=where))


def test_row_25_a_permitted_flag_is_covered() -> None:
    """`git status --short` runs when the template permits `--short`."""
    assert allowed([remembered(command("git status --short"))], command("git status --short"))
    narrow = granted(offers(command("git status --short"))[1].match)
    assert allowed([narrow], command("git status --short"))
    assert allowed([narrow], command("git status"))
    assert not allowed([narrow], command("git status --branch"))


FOLDER = remembered(asked("read_file", arguments={"path": "/ws/a.txt"}))
# Rows 66 to 68: a list that one shell joins, a folder in an argument, a patch with a second file.
TWISTED: list[tuple[str, Kind, dict[str, Any]]] = [
    ("shell", Kind.COMMAND, {"command": ["bash", "-c", "git status; touch M"]}),
    ("shell", Kind.COMMAND, {"command": ["git status", "touch M"]}),
    ("shell", Kind.COMMAND, {"command": "git status", "workdir": "/"}),
    ("shell", Kind.COMMAND, {"command": "git status", "workdir": "../evil"}),
    ("shell", Kind.COMMAND, {"command": "git status", "cwd": "/ws", "workdir": "/etc"}),
    ("read_file", Kind.TOOL, {"path": "/ws/a.txt", "workdir": "/etc"}),
    ("apply_patch", Kind.FILE_CHANGE, {"patch": "--- a/x\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b"}),
    ("apply_patch", Kind.FILE_CHANGE,
     {"input": "*** Begin Patch\n*** Update File: a\n*** Add File: ../b\n+x\n*** End Patch"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "covered"),
    [
        ("/ws/../etc/passwd", False),  # 26
        ("/ws-evil/k", False),  # 27
        ("/ws/a b.txt", True),  # 28
        ("/ws/deep/er/x.py", True),
        ("/ws", True),
        ("a.txt", True),
        ("./a.txt", True),
        ("/ws//a", True),
        ("/ws/ä.txt", True),
        ("../etc/passwd", False),
        ("/WS/a", False),
        ("/ws/..", False),
        ("/ws/a/../../x", False),
        ("/ws\\..\\x", False),
        ("~/a", False),
        ("/ws/a\x00", False),
        ("/ws/a\n", False),
        ("/ws/a\u202e", False),
        ("/ws/\u0430.txt/b", False),
        ("/ws/a\u0308", False),
        ("/ws/a.", False),
        ("/ws/a ", False),
        ("/ws/progra~1", False),
        ("/ws/a:stream", False),
        ("file:///ws/a", False),
        ("/ws/*", False),
        ("/ws/$HOME", False),
        ("", False),
        ("/ws/.env", False),
        ("/ws/.GIT/config", False),
        ("/ws/.ssh/config", False),
        ("/ws/" + "a" * 5000, False),
        (7, False),
        (None, False),
        (["/ws/a"], False),
    ],
)
def test_rows_26_to_28_a_folder_is_compared_by_components(path: object, covered: bool) -> None:
    """A folder covers what lies in it by name, and nothing that only looks so."""
    assert allowed([FOLDER], asked("read_file", arguments={"path": path})) is covered


def test_a_resolved_path_outside_the_folder_is_asked_about() -> None:
    """The gateway cannot follow links, but what the agent's side resolved must lie inside too."""
    inside, outside = {"/ws/real.txt": "0" * 64}, {"/etc/passwd": "0" * 64}
    ask = {"arguments": {"path": "/ws/link"}}
    assert allowed([FOLDER], asked("read_file", context=Context(cwd="/ws", files=inside), **ask))
    assert not allowed(
        [FOLDER], asked("read_file", context=Context(cwd="/ws", files=outside), **ask)
    )


def test_a_folder_for_one_operation_is_none_for_another() -> None:
    """To read is not to write, and not to read over there."""
    ask = {"arguments": {"path": "/ws/a.txt"}}
    assert not allowed([FOLDER], asked("write_file", **ask))
    assert not allowed([FOLDER], asked("read_file", context=Context(cwd="/ws", host="far"), **ask))
    assert not allowed([FOLDER], asked("read_file", context=Context(cwd="/elsewhere"), **ask))
    more = {"path": "/ws/a.txt", "follow": True}
    assert not allowed([FOLDER], asked("read_file", arguments=more))


def test_row_36_an_agents_own_low_risk_opens_nothing() -> None:
    """Whatever an agent claims, high risk is never covered and nothing is offered."""
    high = Risk(level=RiskLevel.HIGH)
    grant = remembered(command("ls"))
    exact = granted(offer_of(command("ls"), Shape.EXACT).match)
    assert not allowed([grant, exact], command("ls", risk=high))
    assert offers(command("ls", risk=high)) == ()


@pytest.mark.parametrize("name", [name for name in ASK if name[:2] in ("38", "39")])
def test_rows_38_and_39_what_hides_is_not_remembered(name: str) -> None:
    """With text that misleads its reader, nothing is offered, not even those bytes."""
    assert offers(command(ASK[name])) == ()


def test_row_57_an_edit_is_matched_as_edited() -> None:
    """Edited arguments are other arguments: the grant for the first ones does not cover them."""
    first = command("ls")
    exact = granted(offer_of(first, Shape.EXACT).match)
    asked_for = request(tool="shell", kind=first.request.kind, arguments={"command": "ls"},
                        context=first.request.context)  # fmt: skip
    digest = digest_of(asked_for, {"command": "rm x"})
    edited = command("ls")
    changed = replace(edited, edited={"command": "rm x"}, digest=digest)
    assert not allowed([exact, *TEMPLATES], changed)


def test_row_63_an_exact_repeat_is_covered() -> None:
    """The same action again, under another id, needs nobody."""
    exact = granted(offer_of(command("./deploy.sh --all; date"), Shape.EXACT).match)
    assert allowed([exact], command("./deploy.sh --all; date"))
    assert not allowed([exact], command("./deploy.sh --all;  date"))


def test_no_effect_crosses_agents_or_sessions() -> None:
    """A grant is one agent's, and a session's grant is that session's."""
    match = offer_of(command("ls"), Shape.EXACT).match
    assert not allowed([granted(match, agent="other")], command("ls"))
    assert not allowed([granted(match, session="s2")], command("ls"))
    assert allowed([granted(match, session="default")], command("ls"))
