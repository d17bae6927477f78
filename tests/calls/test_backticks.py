"""Backticks are read as a shell reads them, however they are nested: judged by the shell itself."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import strategies as st

from gateway.cards.card import card_of
from gateway.cards.summary import plain_summary
from gateway.models import Context, Kind
from gateway.policy.calls.script import read_script
from tests.discord.pictures import stored
from tests.sweeps import tried
from tests.world import request

NAMES = tuple(f"p{number}" for number in range(6))
NEVER = "never"
EMPTY = st.sampled_from(("", "``", "````"))


def runs(script: str) -> set[str]:
    """Return which of the programs a shell really runs."""
    told = "".join(f"{one}() {{ echo {one} >&3; }}\n" for one in (*NAMES, NEVER))
    done = subprocess.run(
        ["/bin/sh", "-c", f"exec 3>&1 >/dev/null\n{told}{script}"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/nonexistent"},
    )
    return set(done.stdout.split())


def nested(inside: str, *, quoted: bool) -> str:
    """Return a script between backticks, with what is in it protected."""
    for char in '\\`$"' if quoted else "\\`$":
        inside = inside.replace(char, f"\\{char}")
    return f"`{inside}`"


@st.composite
def commands(draw: st.DrawFn, depth: int = 3) -> str:
    """A command whose words hold others, in backticks in and without quotes, and empty ones."""
    name, before, after = draw(st.sampled_from(NAMES)), draw(EMPTY), draw(EMPTY)
    words = [f"{before}{name}{after}"]
    for _ in range(draw(st.integers(0, 2))):
        way = draw(st.sampled_from(("bare", "quoted", "new", "single", "none", "escaped")))
        inside = draw(commands(depth - 1)) if depth else NAMES[0]
        words.append(
            {
                "bare": f"{draw(EMPTY)}{nested(inside, quoted=False)}{draw(EMPTY)}",
                "quoted": f'"x {nested(inside, quoted=True)} y"',
                "new": f"$({inside}\n)",
                "single": f"'`{NEVER}` ``{NEVER}``'",
                "none": "``",
                "escaped": "\\`x",
            }[way]
        )
    return " ".join(words)


@st.composite
def scripts(draw: st.DrawFn) -> str:
    """A few lines: commands, each perhaps between backticks itself, comments and texts."""
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        one = draw(commands())
        lines.append(
            draw(
                st.sampled_from(
                    (
                        one,
                        nested(one, quoted=False),
                        f"``{nested(one, quoted=False)}``",
                        f"{one} # it's `{NEVER}`",
                        f"{NAMES[0]} <<'E'\n```{NEVER}```\nE",
                        f"{NAMES[0]} <<E\nit's {nested(one, quoted=False)}\nE",
                    )
                )
            )
        )
    return "\n".join(lines)


@tried(scripts(), few=40, many=150)
def test_what_a_shell_runs_is_listed(script: str) -> None:
    """And nothing that it does not run: no text in single quotes, no comment."""
    listed = {step.name for step in read_script(script).steps}
    assert runs(script) <= listed
    assert NEVER not in listed


@pytest.mark.parametrize(
    "script",
    [
        "```rm -rf /srv```",
        "echo x\n```rm -rf /srv``` *b*",
        "``r``m -rf /srv",
        "echo `echo \\`rm -rf /srv\\``",
    ],
)
def test_the_head_names_what_backticks_hide(script: str) -> None:
    """Three are an empty pair and the beginning of one that runs; within one stands another."""
    asked = request(kind=Kind.COMMAND, arguments={"command": script}, context=Context(cwd="/app"))
    assert '"/srv"' in plain_summary(card_of(stored(asked), lines=9, chars=900).summary)
