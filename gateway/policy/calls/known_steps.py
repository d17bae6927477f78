"""Find how much known commands may do: look, change files, or run the project's code. Start reading
at `reach_of`.

It returns None unless every step of a script is known, all words are certain, and all paths are
below the call's folder. `known_commands.txt` and the rules here define the known steps.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import replace
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise

from gateway.policy.calls.danger_patterns import words_that_act
from gateway.policy.calls.known_commands import (
    Operands,
    ParsedCommand,
    files_of,
    paths_of,
    read,
)
from gateway.policy.calls.paths import below, delicate, is_executed, names_delicate, within
from gateway.policy.calls.script import Certainty, ShellScript, Step, read_script, reckons
from gateway.policy.calls.shell_words import ENTITY, Word, load_words

HARMLESS_VARIABLES = frozenset(
    {"CI", "CLICOLOR", "COLUMNS", "DEBIAN_FRONTEND", "FORCE_COLOR", "LANG", "LC_ALL", "NODE_ENV",
     "NO_COLOR", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "RAILS_ENV", "RUST_BACKTRACE",
     "TERM", "TZ"}
)  # fmt: skip
"""Variables that change only how a program prints, or which of its own settings it uses."""


class Extent(IntEnum):
    """How much a command may do, the least first."""

    LOOK = 0
    CHANGE = 1
    RUN = 2


_WRAPPERS = frozenset({"bash", "builtin", "command", "env", "nice", "sh", "stdbuf", "time",
                       "timeout"})  # fmt: skip
_STARTERS = frozenset({"bundle", "hatch", "pdm", "pipenv", "poetry", "rye", "uv"})  # `… run`
_IDLE = frozenset({":", "[", "echo", "exit", "false", "printf", "pwd",
                   "seq", "sleep", "test", "true", "wait"})  # fmt: skip
# With these options they take a variable's name, which may run code or set any variable.
_NAMING = {"[": ("-v", "-R"), "test": ("-v", "-R"), "printf": ("-v",), "wait": ("-p",)}
_LOOKING = frozenset({"column", "fold", "od", "paste", "rev", "type"})
# Commands of `known_commands.txt`: those that change files, format or stage them, or only look.
_CHANGING = frozenset({"mkdir", "touch"})
_FORMATTING = frozenset({"git add", "isort", "black", "ruff check", "ruff format", "go fmt",
                         "cargo fmt", "terraform fmt"})  # fmt: skip
_LOOKS = frozenset(
    {"ls", "pwd", "whoami", "id", "hostname", "uname", "date", "uptime", "df", "du", "free",
     "nproc", "cat", "head", "tail", "wc", "nl", "tac", "stat", "file", "basename", "dirname",
     "realpath", "readlink", "which", "tree", "cut", "sort", "comm", "diff", "cmp", "md5sum",
     "sha1sum", "sha256sum", "sha512sum", "grep", "rg", "sed", "jq", "find", "git status",
     "git log", "git diff", "git show", "git blame", "git branch", "git tag",
     "git stash list",
     "git rev-parse", "git rev-list", "git merge-base", "git describe", "git ls-files",
     "git shortlog", "git reflog", "git check-ignore", "git grep", "git tag -l", "git tag --list",
     "rg --files", "pip list", "pip show", "pip freeze", "pip check", "npm ls",
     "go version", "terraform version"}
)  # fmt: skip
_RUNS = frozenset(
    {"git commit", "git switch", "git stash", "git stash pop", "cargo build", "cargo check",
     "cargo test", "cargo clippy", "npm test", "npm run", "yarn test", "pnpm test", "pnpm run",
     "tsc", "prettier", "eslint", "pytest", "mypy", "make", "terraform validate"}
)  # fmt: skip
# Programs that build, test or check a project, with the only first words they may have.
_TOOLS: dict[str, frozenset[str]] = {
    "bun": frozenset({"run", "test"}),
    "cargo": frozenset({"bench", "build", "check", "clippy", "doc", "run", "test"}),
    "composer": frozenset({"run", "test"}),
    "coverage": frozenset({"html", "report", "run", "xml"}),
    "deno": frozenset({"check", "fmt", "lint", "task", "test"}),
    "dotnet": frozenset({"build", "format", "run", "test"}),
    "go": frozenset({"build", "generate", "run", "test", "vet"}),
    "gradle": frozenset({"assemble", "build", "check", "compileJava", "test"}),
    "gradlew": frozenset({"assemble", "build", "check", "compileJava", "test"}),
    "mix": frozenset({"compile", "format", "test"}),
    "mvn": frozenset({"compile", "package", "test", "verify"}),
    "mvnw": frozenset({"compile", "package", "test", "verify"}),
    "npm": frozenset({"run", "run-script", "t", "test"}),
    "pnpm": frozenset({"run", "test"}),
    "swift": frozenset({"build", "test"}),
    "yarn": frozenset({"run", "test"}),
    "vitest": frozenset({"run"}),
    **dict.fromkeys(
        ("black", "ctest", "eslint", "flake8", "invoke", "isort", "jest", "just", "make", "mocha",
         "mypy", "ninja", "nox", "phpunit", "prettier", "pylint", "pyright", "pytest", "rake",
         "rspec", "rubocop", "ruff", "task", "tox", "tsc"),
        frozenset(),
    ),
}  # fmt: skip
_ONLY_VERBS = frozenset({"gradle", "gradlew", "mvn", "mvnw"})  # all their operands are verbs
_MODULES = frozenset({"black", "compileall", "coverage", "doctest", "flake8", "isort", "mypy",
                      "py_compile", "pylint", "pytest", "ruff", "unittest"})  # fmt: skip
_SCRIPTS = {
    "bash": (".sh", ".bash"), "bun": (".ts", ".js"), "deno": (".ts", ".js"),
    "node": (".js", ".mjs", ".cjs"), "perl": (".pl",), "php": (".php",),
    "python": (".py",), "python3": (".py",), "ruby": (".rb",),
    "sh": (".sh",), "ts-node": (".ts",), "tsx": (".ts", ".tsx"),
}  # fmt: skip
# Programs that run nothing of the project when they print their version.
_VERSIONED = frozenset({*_SCRIPTS, "docker", "gcc", "git", "go", "java", "npm",
                        "pip", "rustc", "uv"})  # fmt: skip
_SET = re.compile(r"[-+][euxo]+|pipefail")
_OPTIONS = load_words("project_options.txt")
_TEXTS = frozenset(
    {"-k", "-m", "-t", "-run", "-bench", "--run", "--ext", "--grep", "--filter", "--select",
     "--ignore", "--features", "--tests", "--testNamePattern", "--testPathPattern"}
)  # fmt: skip
_SHORT = re.compile(r"-[jn][0-9]+|-r[A-Za-z]|-v{1,4}")
_TEXT = re.compile(r"[^-/~\n][^/~\n]*")
_ARGUMENT = re.compile(r"[A-Za-z0-9_@%+:,.=\[\]/~^-]+")
_TARGET = re.compile(r"[A-Za-z0-9_.%/:-]+")
# A wildcard that hides no part of a name: `src/*.py`, `test_*`, but not `s*ts` or `wall?t`.
_PATTERN = re.compile(r"(?:[\w.-]*[._-])?\*{1,2}(?:[._-][\w.-]*)?")
_OPTION_OF_FILES = re.compile(r"--(?:include|exclude|exclude-dir|glob)=")
_UNCERTAIN = re.compile(r"[*?\[{(]")
_ENDED = re.compile(r"\$\?")
_WRAPPER_OPTION = re.compile(r"--?|-[elxu]*c|-[exuinsp]|-n?[0-9]+")
_NAMED_TARGETS = frozenset({"invoke", "just", "make", "ninja", "rake", "task"})
_SUBSTITUTION = (
    r"([0-9]+(?:,[0-9$]+)?)?s([/|#,])(?:\\.|(?!\2)[^\\\n])*\2(?:\\.|(?!\2)[^\\\n])*\2[gI0-9]*"
)
_SED = re.compile(rf"(?:{_SUBSTITUTION})|[0-9]+(?:,[0-9$]+)?[pd]|/[^/\\\n]*/[pd]")
# Words in capitals are built into awk; only those about the current line are permitted.
_AWK = re.compile(
    r"(?!.*(?:system|getline|close|[|>@`]))"
    r"(?!.*(?<![A-Za-z])(?!(?:BEGIN|END|NR|NF|FNR|FS|OFS|RS|ORS)\b)[A-Z]{2})[^\n]*"
)
_EDITORS: dict[str, tuple[frozenset[str], re.Pattern[str]]] = {
    "sed": (frozenset({"-n", "-i", "-E", "-r"}), _SED),
    "awk": (frozenset(), _AWK),
}
# Programs that print facts about the machine or the line itself, not files of the project.
_SPEAKING = frozenset({"basename", "date", "dirname", "nproc", "pwd", "uname", "which", "whoami"})
# Programs that, with options only, just print their input.
_FILTERS = frozenset({"awk", "cat", "column", "cut", "fold", "grep", "head", "jq", "nl", "rev",
                      "sed", "sort", "tac", "tail", "tr", "uniq", "wc"})  # fmt: skip
_FOLDERS_READ = frozenset({"-r", "-R", "--recursive"})
# Changes that put no foreign content into the project.
_MENDING = frozenset({"mkdir", "git add", *_FORMATTING})
# Programs for services, which write nothing to the project and read no settings from it.
_ELSEWHERE = frozenset({"curl", "docker", "gh", "kubectl"})
_REPLACING = frozenset({"git switch", "git stash", "git stash pop"})
_COPYING = frozenset({"cp", "mv", "tee"})
_COPY_FLAGS = re.compile(r"--?(?:[arRfnvpui]+|recursive|force|verbose|append)")


@lru_cache(maxsize=1024)
def reach_of(text: str, base: str | None) -> Extent | None:
    """Return how much a script may do if it runs in `base`, or None if that is not certain."""
    if ENTITY.search(text):  # some coding agents decode these before a shell reads them
        return None
    script = read_script(text)
    read = script.whole and script.alike and bool(script.steps)
    if not read or script.run - _spoken(script.steps):
        return None
    if any(names_delicate_place(script, at, base) for at in range(len(script.steps))):
        return None
    if any(one.name == "git" and not _is_base(one, base) for one in script.steps):
        return None
    found = [reach_of_step(step, base) for step in script.steps]
    known = [one for one in found if one is not None]
    return max(known) if len(known) == len(found) else None


def is_idle(step: Step, base: str | None) -> bool:
    """Return whether a step of a line only prints, changes the folder, or outputs its input."""
    name, words = step.words[0], step.words[1:]
    says = (
        name == "cd"
        or (name in ("true", "false", ":", "pwd", "wait") and not words)
        or (name == "echo" and Certainty.GLOB not in step.marks)
        or (name in ("exit", "sleep") and len(words) == 1 and words[0].isdecimal())
        or (name == "set" and bool(words) and all(map(_SET.fullmatch, words)))
        or (name in _SPEAKING and _read_table(step) is not None)
    )
    return says or _is_filter(step, base)


def _is_filter(step: Step, base: str | None) -> bool:
    """Return whether a step prints its input and opens no file."""
    if step.words[0] not in _FILTERS or not step.fed_by or Certainty.GLOB in step.marks:
        return False
    reading = _read_table(step)
    if reading is not None:
        looks = _reach_by_table(step, base) is Extent.LOOK
        return looks and not (paths_of(reading) or _FOLDERS_READ & reading.flags)
    if step.name in _EDITORS:
        return _reach_of_editor(step, base) is Extent.LOOK and _names_no_file(step)
    plain = all(one[:1] == "-" and one != "-" for one in step.words[1:]) or step.name == "tr"
    return plain and "-" not in step.words and _reach_by_name(step, base) is Extent.LOOK


def _names_no_file(step: Step) -> bool:
    """Return whether `sed` or `awk` gets only its script, and no files."""
    words = step.words[1:]
    if step.name == "awk" and words and words[0].startswith("-F"):
        words = words[2 if words[0] == "-F" else 1 :]
    scripts = words.count("-e") or 1
    return sum(not one.startswith("-") for one in words) == scripts


def may_put_files(step: Step, base: str | None) -> bool:
    """Return whether a step may put files of its choice, or of another branch, into the project.
    Builds and tests do not count."""
    if step.writes:
        return True
    alone = replace(step, wrappers=(), wrapping=())
    reach, called = reach_of_step(alone, base), _called(step)
    if called.partition(" ")[0] in _ELSEWHERE:
        return False
    return (
        reach is None or called in _REPLACING or (reach is Extent.CHANGE and called not in _MENDING)
    )


def may_run(step: Step, base: str | None) -> bool:
    """Return whether a step may run files of the project, or be controlled by them."""
    reach = reach_of_step(replace(step, writes=()), base)
    if _called(step).partition(" ")[0] in _ELSEWHERE:
        return False
    changes = reach is Extent.CHANGE and _called(step) not in _FORMATTING
    return not (reach is Extent.LOOK or changes)


def _called(step: Step) -> str:
    reading = _read_table(step)
    return " ".join((reading.known.program, *reading.known.verbs)) if reading is not None else ""


def names_delicate_place(script: ShellScript, at: int, base: str | None) -> bool:
    """Return whether a step names a delicate place in any word that may have an effect."""
    step = script.steps[at]
    globs = Certainty.GLOB in step.marks
    written = bool(step.writes) or reach_of_step(step, base) is not Extent.LOOK
    return any(
        names_delicate(word, base, data=False, globs=globs, written=written)
        for word in words_that_act(script, at)
    )


def _spoken(steps: tuple[Step, ...]) -> set[int]:
    """Return the positions of steps that only print words. If something runs these words, the
    reader reads them as a script."""
    return {at for at, one in enumerate(steps) if one.name in ("echo", "printf", "cat")}


def reach_of_step(step: Step, base: str | None) -> Extent | None:
    """Return how much one step may do, or None if that is not certain."""
    started = set(step.wrappers) - _WRAPPERS - {"run", "exec"}
    if not (started <= _STARTERS and _is_certain(step) and _stays(step, base)):
        return None
    found = _reach_of_words(step, base)
    if found is None:
        return None
    return max(found, Extent.RUN if started else found, Extent.CHANGE if step.writes else found)


def _is_certain(step: Step) -> bool:
    """Return whether all words are certain, and only harmless variables are set."""
    options = (word for word in step.wrapping if word.startswith("-"))
    return (
        step.exact
        and (not step.is_open or says_how_it_ended(step))
        and set(step.sets) <= HARMLESS_VARIABLES
        and all(map(_is_clear, step.words, step.marks))
        and all(map(_WRAPPER_OPTION.fullmatch, options))
    )


def says_how_it_ended(step: Step) -> bool:
    """Return whether `echo` prints no uncertain value except the exit status of the command before
    it."""
    told = [one for one, mark in zip(step.words, step.marks, strict=True)
            if mark is Certainty.OPEN]  # fmt: skip
    known = all("$?" in one and "$" not in _ENDED.sub("", one) for one in told)
    return step.words[0] == "echo" and not step.writes and known


def _stays(step: Step, base: str | None) -> bool:
    """Return whether a step runs below the folder, and its redirections stay below it."""
    return (
        step.folders is not None
        and all(_lies_below(folder or ".", base) for folder in step.folders)
        and all(_may_read(step, path, base) for path in step.reads)
        and all(_may_write(step, path, base) for path in step.writes)
        and not any(map(_UNCERTAIN.search, step.reads))
    )


def _is_base(step: Step, base: str | None) -> bool:
    """Return whether a step runs in the call's folder itself; settings of other repositories can
    run code."""
    here = posixpath.normpath(base or "")
    places = (posixpath.normpath(posixpath.join(base or "", one)) for one in step.folders or ("?",))
    return all(place == here for place in places)


def _is_clear(word: str, mark: Certainty) -> bool:
    """Return whether a word is literal, or a wildcard that `is_clear_pattern` accepts."""
    if word[:1] == "=" or word == "%self":  # zsh and fish expand these
        return False
    return mark is not Certainty.GLOB or is_clear_pattern(word)


def is_clear_pattern(word: str) -> bool:
    """Return whether a wildcard replaces only whole words of names, and cannot expand to an
    option."""
    if _OPTION_OF_FILES.match(word):
        return True
    return word[:1] not in ("*", "?", "[", "-") and hides_no_name(word)


def hides_no_name(pattern: str) -> bool:
    """Return whether a wildcard replaces only whole words of names."""
    parts = [part for part in pattern.split("/") if _UNCERTAIN.search(part)]
    return all(map(_PATTERN.fullmatch, parts))


def _reach_of_words(step: Step, base: str | None) -> Extent | None:
    if "/" not in step.words[0]:
        readers = (_reach_by_name, _reach_of_going, _reach_of_copy, _reach_of_editor,
                   _reach_by_table, _reach_of_project)  # fmt: skip
        return next((found for one in readers if (found := one(step, base)) is not None), None)
    if not _is_own_program(step, base):
        return None
    if step.name in _TOOLS or step.name in _SCRIPTS:
        return _reach_of_project(step, base)
    system = step.words[0].startswith("/")
    return None if system else _reach_of_code(step, base, step.words[1:], own=True)


def _reach_by_name(step: Step, base: str | None) -> Extent | None:
    name, words = step.name, step.words[1:]
    operands = [word for word in words if word[:1] != "-"]
    looks = (
        (name in _IDLE and _only_says(name, words) and _lists_below(step, base))
        or (name == "set" and bool(words) and all(map(_SET.fullmatch, words)))
        or (name == "command" and words[:1] in (("-v",), ("-V",)))
        or (name in _VERSIONED and words == ("--version",))
        or (name in _LOOKING and all(_may_read(step, one, base) for one in operands))
        or (name == "tr" and len(operands) in (1, 2))
        or (name in ("uniq", "xxd") and not operands)
    )
    own = name in (".", "source") and len(words) == 1 and words[0].endswith("venv/bin/activate")
    if own and _may_read(step, words[0], base):
        return Extent.RUN
    return Extent.LOOK if looks else None


_FORMS = re.compile(r"%[^%A-Za-z]*([A-Za-z])")
_SAYING_FORM = re.compile(r"(?:[^%]|%%|%[-0-9.]*[sbqc])*", re.DOTALL)


def _lists_below(step: Step, base: str | None) -> bool:
    """Return whether each wildcard that a builtin gets is below the folder."""
    globs = (one for one, mark in zip(step.words, step.marks, strict=True)
             if mark is Certainty.GLOB)  # fmt: skip
    return all(_lies_at(step, one, base) for one in globs)


def _only_says(name: str, words: tuple[str, ...]) -> bool:
    """Return whether a builtin gets no variable name and no arithmetic, either of which may run
    code."""
    named = any(word.startswith(_NAMING.get(name, ())) for word in words)
    sums = reckons(("[", *words, "]")) if name in ("[", "test") else False
    if name in ("[", "test"):
        sums = sums or any(one == "-t" and not two.isdecimal() for one, two in pairwise(words))
    elif name == "printf" and words:
        sums = not _SAYING_FORM.fullmatch(words[0]) and not all(map(str.isdecimal, words[1:]))
        sums = sums or "n" in _FORMS.findall(words[0])
    return (
        not named and not sums and not (name == "exit" and not "".join(words).isdecimal() and words)
    )


def _reach_of_going(step: Step, base: str | None) -> Extent | None:
    """Return how much `cd` does. Its folder must be below `base`, because the shell may keep it for
    later commands."""
    if step.name != "cd" or len(step.words) != 2 or step.words[1][:1] in ("-", "~", "$"):  # noqa: PLR2004
        return None
    ends = (posixpath.normpath(one) for one in step.places(step.words[1]))
    return Extent.LOOK if all(_lies_below(one, base) for one in ends) else None


def _reach_by_table(step: Step, base: str | None) -> Extent | None:
    """Return how much a command of `known_commands.txt` does, or None."""
    reading = _read_table(step)
    if reading is None or not _are_looked_at(step, reading, base):
        return None
    called = " ".join((reading.known.program, *reading.known.verbs))
    if called == "git restore" and reading.flags & {"--staged", "-S"}:
        return Extent.CHANGE
    if called in _LOOKS or (called == "ps" and set(reading.operands) <= {"aux", "ax"}):
        return Extent.LOOK
    if called in _FORMATTING | _CHANGING:
        written = files_of(reading) if called in _CHANGING else ()
        return Extent.CHANGE if all(_may_write(step, path, base) for path in written) else None
    targets = reading.operands if called in ("make", "npm run", "pnpm run") else ()
    return Extent.RUN if called in _RUNS and all(map(_TARGET.fullmatch, targets)) else None


def _read_table(step: Step) -> ParsedCommand | None:
    words = step.words[2:] if step.words[1:2] == ("--no-pager",) else step.words[1:]
    return read(tuple(Word(word, word) for word in (step.name, *words)))


def _are_looked_at(step: Step, reading: ParsedCommand, base: str | None) -> bool:
    paths = (path for path in files_of(reading) if path)
    if reading.known.program == "git" and reading.known.operands is Operands.NAMES:
        return all(delicate(path, written=False) is None for path in paths)  # also of a revision
    return all(_may_read(step, path, base) for path in paths)


def _reach_of_copy(step: Step, base: str | None) -> Extent | None:
    if step.name not in _COPYING:
        return None
    operands = [one for one in step.words[1:] if not one.startswith("-")]
    flags = [one for one in step.words[1:] if one.startswith("-")]
    known = all(map(_COPY_FLAGS.fullmatch, flags)) and operands
    certain = all(mark is Certainty.PLAIN for mark in step.marks)
    if not known or not certain or not all(_may_write(step, one, base) for one in operands):
        return None
    return Extent.CHANGE


def _reach_of_editor(step: Step, base: str | None) -> Extent | None:
    """Return how much `sed` or `awk` does if its script only prints, removes or replaces text."""
    if step.name not in _EDITORS:
        return None
    allowed, wanted = _EDITORS[step.name]
    words = list(step.words[1:])
    if step.name == "awk" and words and words[0].startswith("-F"):
        words = words[2 if words[0] == "-F" else 1 :]
    flags = {one for one in words if one.startswith("-")} - {"-e"}
    rest = [one for one in words if not one.startswith("-")]
    scripts = [two for one, two in pairwise(words) if one == "-e"] or rest[:1]
    files = [one for one in rest if one not in scripts]
    may = _may_write if "-i" in flags else _may_read
    known = scripts and flags <= allowed and all(map(wanted.fullmatch, scripts))
    if not known or not all(may(step, path, base) for path in files):
        return None
    return Extent.CHANGE if "-i" in flags else Extent.LOOK


# ---------------------------------------------------------------- the project's own code


def _reach_of_project(step: Step, base: str | None) -> Extent | None:
    name, words = step.name, step.words[1:]
    python = name in ("python", "python3")
    while python and words[:1] in (("-u",), ("-B",)):
        words = words[1:]
    if words and name in _SCRIPTS and words[0].endswith(_SCRIPTS[name]):
        may = _may_read(step, words[0], base)
        return _reach_of_code(step, base, words, own=True) if may else None
    if python and words[:1] == ("-m",) and words[1:2] and words[1] in _MODULES:
        return _reach_of_code(step, base, words[2:])
    verbs = _TOOLS.get(name)
    if verbs is None or (verbs and not _are_verbs(name, words, verbs)):
        return None
    steered = name in _NAMED_TARGETS and any("=" in word for word in words)
    return None if steered else _reach_of_code(step, base, words)


def _are_verbs(name: str, words: tuple[str, ...], verbs: frozenset[str]) -> bool:
    """Return whether a program gets only these verbs. For Go, packages of the project are allowed
    too."""
    operands = [word for word in words if not word.startswith("-")]
    if name in _ONLY_VERBS:
        return bool(operands) and verbs.issuperset(one.rpartition(":")[2] for one in operands)
    if name == "go":
        named = [two for one, two in pairwise(words) if two[:1] != "-" and one not in _TEXTS]
        return words[:1] != () and words[0] in verbs and all(one[:1] == "." for one in named)
    if name == "coverage" and "-m" in words:
        return words[:2] == ("run", "-m") and set(words[2:3]) <= _MODULES
    return bool(words) and words[0] in verbs


def _reach_of_code(
    step: Step, base: str | None, words: tuple[str, ...], *, own: bool = False
) -> Extent | None:
    """Return RUN if the words name nothing outside the folder and all options are known, else None.
    The project's own programs (`own`) may have any options."""
    before = ""
    for word in words:
        text = before in _TEXTS and _TEXT.fullmatch(word)
        before = word
        if text:
            continue
        option = word.partition("=")[0] if word.startswith("-") else "--"
        if not (own or option in _OPTIONS or _SHORT.fullmatch(word)):
            return None
        if not _ARGUMENT.fullmatch(word) or (word.startswith("-") and ":" in word and not own):
            return None
        for part in (word, word.partition("=")[2], word.rpartition(":")[2]):
            if part and not part.startswith("-") and not _may_read(step, part, base):
                return None
    return Extent.RUN


def _is_own_program(step: Step, base: str | None) -> bool:
    """Return whether a program with a path is in the call's folder or belongs to the system."""
    word = step.words[0]
    if word.startswith(("/usr/bin/", "/bin/", "/usr/local/bin/")):
        return word.count("/") == len(word.rpartition("/")[0].split("/")) - 1
    return step.marks[0] is Certainty.PLAIN and _lies_at(step, word, base)


# ---------------------------------------------------------------- paths


def _may_read(step: Step, path: str, base: str | None) -> bool:
    return _lies_at(step, path, base) and all(
        delicate(one, base, written=False) is None for one in step.places(path)
    )


def _may_write(step: Step, path: str, base: str | None) -> bool:
    certain = _UNCERTAIN.search(path) is None and path[:1] != "="
    return (
        certain
        and _lies_at(step, path, base)
        and all(delicate(one, base) is None and not is_executed(one) for one in step.places(path))
    )


def _lies_at(step: Step, path: str, base: str | None) -> bool:
    return all(_lies_below(one, base) for one in step.places(sure_folder(path)))


def _lies_below(path: str, base: str | None) -> bool:
    return below(path) if base is None else within(path, base, base)


def sure_folder(path: str) -> str:
    """Return the folder of a wildcard, up to the first uncertain part. Return `..` if the path goes
    up again after that."""
    parts = path.split("/")
    sure = next((at for at, part in enumerate(parts) if _UNCERTAIN.search(part)), None)
    if sure is not None and ".." in parts[sure:]:
        return ".."
    return path if sure is None else "/".join(parts[:sure]) or "."
