"""Toy hosts: each carries out a call in one meaning that tools give to such arguments.

They run inside a cell (`cell.py`). They are eager: an argument that they do not know is carried out
in the sense of its name, because some tool takes it so. What no file and no marker shows, such as
an address that a message went to, they write down as deeds.
"""

from __future__ import annotations

import contextlib
import html
import json
import os
import re
import shlex
import sqlite3
import subprocess
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.grants.hostile import patchers

LOG, DEEDS = "/log/calls", "/log/deeds"
Arguments = dict[str, Any]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# With these set, no shell looks into /etc/passwd and no patcher leaves files where marks lie.
_ENVIRONMENT = {
    "PATH": "/markers", "HOME": "/home/kim", "SHELL": "/shells/bash", "USER": "kim",
    "LOGNAME": "kim", "LC_ALL": "C", "TMPDIR": "/log",
}  # fmt: skip
_COMMANDS = _names("command cmd commands argv cmdline commandline")
_FOLDERS = _names("cwd workdir workingdir workingdirectory chdir")
_FOLDERS_BESIDE = _names("directory dir dirpath folder path root repopath")
_FOLDERS_READ = _FOLDERS_BESIDE - {"path"}
_ENVIRONMENTS = _names("env environment envs")
_USERS = _names("user asuser uid sudo runas asroot")
_RIGHTS = _names(
    "sandboxpermissions withescalatedpermissions additionalpermissions privileged mode "
    "dangerouslydisablesandbox elevated prefixrule launchoptions"
)
_RUN = _names("code script program stdin args executable entrypoint js input chars keys")
_READ = _names(
    "path filepath file filename paths files src source sourcepath from attachment "
    "attachments absolutepath targetfile notebookpath include uri exclude"
)
_WRITTEN = _names(
    "output saveas logfile dst dest destination destinationpath target to link moveto newpath "
    "outputfile outfile name"
)
# They only speak about a call, or say which part of a file is meant.
_REMARKS = _names(
    "description timeout timeoutms justification explanation yieldtimems maxoutputtokens "
    "offset limit pages replaceall line linecount instruction instructions encoding "
    "insertline viewrange append overwrite createdirs allowmultiple taskprogress "
    "maxoutputlength headlimit outputmode dryrun"
)
_CONTENTS = _names(
    "content contents body filetext newstring oldstring newstr oldstr text newsource codeedit "
    "newtext oldtext search replace"
)
_ASSIGNS = re.compile(r"\w+=")
_CALLS_MANY = re.compile(r"@(?:here|channel|everyone|all|room)\b|<!|^\s*/\w", re.M)


def folded(name: str) -> str:
    """Return a name of an argument as eager hosts take it: case and joining count for nothing."""
    return re.sub("[^a-z0-9]", "", name.lower())


class World:
    """Where a host runs: the tool's name and the context of the call."""

    def __init__(self, tool: str, cwd: str, env: dict[str, str] | None = None) -> None:
        self.tool, self.cwd = tool, cwd
        os.environ.clear()
        os.environ.update(_ENVIRONMENT)
        self.env = {**_ENVIRONMENT, **(env or {})}

    def tell(self, kind: str, value: Any) -> None:
        """Write down a deed that leaves no other trace."""
        with Path(DEEDS).open("a") as deeds:
            deeds.write(json.dumps([kind, value]) + "\n")

    def run(self, argv: list[str], text: str | None = None) -> None:
        """Run a program by the path of markers, as it stands."""
        if not argv or not argv[0]:
            return
        with contextlib.suppress(OSError, ValueError, subprocess.TimeoutExpired):
            subprocess.run(
                argv, cwd=self.cwd, env=self.env, input=(text or "").encode(), timeout=5,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
            )  # fmt: skip

    def shell(self, text: str, *flags: str) -> None:
        """Let a real shell run a text."""
        self.run(["/shells/bash", *(flags or ("-c",)), text])

    def path(self, text: str) -> Path:
        """Return the path that a text names, as a tool takes it."""
        return Path(self.cwd, Path(text).expanduser() if text.startswith("~") else text)

    def read(self, value: Any) -> None:
        """Read a file, each of a list, or look into a folder."""
        for one in _texts(value):
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                path = self.path(one)
                if path.is_dir():
                    list(path.iterdir())
                else:
                    path.read_bytes()

    def write(self, value: Any, text: Any = "") -> None:
        """Write a file, or each of a list."""
        for one in _texts(value):
            with (
                contextlib.suppress(OSError, ValueError, RuntimeError),
                self.path(one).open("a") as file,
            ):
                file.write(str(text))


def _texts(value: Any) -> list[str]:
    several = value if isinstance(value, list) else [value]
    return [one for one in several if isinstance(one, str) and one and "\0" not in one]


def _named(arguments: Arguments, names: frozenset[str]) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in arguments.items() if folded(name) in names]


def _values(arguments: Arguments, names: str) -> list[Any]:
    return [value for _, value in _named(arguments, frozenset(names.split()))]


def _first(arguments: Arguments, names: str) -> Any:
    return next(iter(_values(arguments, names)), None)


def _begin(world: World, arguments: Arguments, *, command: bool = False) -> None:
    """Take what says where, as whom and with which rights a call runs."""
    for name, value in arguments.items():
        plain = folded(name)
        if value is None:
            continue
        if plain in _FOLDERS or (command and plain in _FOLDERS_BESIDE):
            if isinstance(value, str) and value:
                world.cwd = str(world.path(value))
            else:
                world.tell("runs in", value)
        elif plain in _ENVIRONMENTS:
            _set(world, value)
        elif plain in _USERS:
            world.tell("runs as", value)
        elif plain in ("host", "container"):
            world.tell("runs on", value)
        elif plain in _RIGHTS and value not in (False, "", "false", 0, [], {}):
            world.tell("has rights", [plain, value])


def _set(world: World, value: Any) -> None:
    pairs = value.items() if isinstance(value, dict) else (
        one.partition("=")[::2] for one in _texts(value) if _ASSIGNS.match(one)
    )  # fmt: skip
    for name, what in pairs:
        world.env[str(name).replace("=", "_") or "_"] = str(what)
        world.tell("sets", [name, what])


def _carry_out_the_rest(world: World, arguments: Arguments, known: frozenset[str]) -> None:
    """Carry out each argument that a host does not know, in the sense of its name."""
    begun = _FOLDERS | _ENVIRONMENTS | _USERS | _RIGHTS | {"host", "container"}
    for name, value in arguments.items():
        plain = folded(name)
        if plain in known | begun | _REMARKS or value is None:
            continue
        if plain in _COMMANDS | _RUN:
            for one in _texts(value):
                world.shell(one)
            world.tell("is given", [plain, value])
        elif plain == "shell":
            world.run([*_texts(value)[:1], "-c", "true"])
        elif plain in _READ | _FOLDERS_READ:
            world.read(value)
        elif plain in _WRITTEN:
            world.write(value)
        elif plain == "edits":
            _edit_each(world, value)
        else:
            world.tell("is given", [plain, value])


def _edit_each(world: World, value: Any, path: Any = None) -> None:
    for edit in _loaded(value) if isinstance(_loaded(value), list) else ():
        if isinstance(edit, dict):
            own = _first(edit, "file path filepath filename")
            world.write(own if own is not None else path, "edited")
            _carry_out_the_rest(world, edit, _CONTENTS | {"file", "path", "filepath", "filename"})
        elif isinstance(edit, list):
            _edit_each(world, edit, path)
        else:
            world.tell("is given", ["edit", edit])


def _loaded(value: Any) -> Any:
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return json.loads(value)
    return value


# ---------------------------------------------------------------- commands


def _hosts_a_command(run: Callable[[World, Any], None]) -> Callable[[World, Arguments], None]:
    def host(world: World, arguments: Arguments) -> None:
        _begin(world, arguments, command=True)
        for _, value in _named(arguments, _COMMANDS):
            run(world, value)
        _carry_out_the_rest(world, arguments, _COMMANDS | _FOLDERS_BESIDE | {"login", "tty"})

    return host


def _shell(world: World, value: Any) -> None:
    if isinstance(value, list):
        world.run(_texts(value))
    elif isinstance(value, str):
        world.shell(value)


def _per_element(world: World, value: Any) -> None:
    for one in _texts(value):
        world.shell(one)


def _words(world: World, value: Any) -> None:
    if isinstance(value, list):
        world.run(_texts(value))
    elif isinstance(value, str):
        with contextlib.suppress(ValueError):
            world.run(shlex.split(value))


def _join(world: World, value: Any) -> None:
    world.shell(" ".join(_texts(value)))


def _login(world: World, value: Any) -> None:
    if isinstance(value, list):
        world.run(_texts(value))
    elif isinstance(value, str):
        world.shell(value, "-lc")


def _unescape(world: World, value: Any) -> None:
    for one in [" ".join(_texts(value))] if isinstance(value, list) else _texts(value):
        world.shell(html.unescape(one))


def _session(world: World, arguments: Arguments) -> None:
    """Type into a shell that is already there."""
    _begin(world, arguments)
    for name in ("chars", "input", "keys", "stdin"):
        for value in _values(arguments, name):
            world.run(["/shells/bash", "-s"], "\n".join(_texts(value)))
            world.tell("types", value)
    world.tell("in session", _first(arguments, "sessionid pid id"))
    known = {"chars", "input", "keys", "stdin", "sessionid", "pid", "id"}
    _carry_out_the_rest(world, arguments, frozenset(known))


def _code(world: World, arguments: Arguments) -> None:
    """Run a text as a program; the shell stands for every language."""
    names = _names("code script query command source program js expression")
    _begin(world, arguments)
    for name, value in _named(arguments, names):
        world.tell("runs the text", [name, value])
        for one in _texts(value):
            world.shell(one)
    _carry_out_the_rest(world, arguments, names)


def _sqlite(world: World, arguments: Arguments) -> None:
    """Run a query in a database that may attach others."""
    names = _names("sql query q statement cypher")
    _begin(world, arguments)
    for name, value in _named(arguments, names):
        world.tell("runs the text", [name, value])
        for one in _texts(value):
            with contextlib.suppress(sqlite3.Error, OSError, ValueError):
                sqlite3.connect(":memory:").executescript(one)
    _carry_out_the_rest(world, arguments, names)


# ---------------------------------------------------------------- files

_PATHS = _names("path filepath file filename absolutepath targetfile notebookpath")


def _reader(world: World, arguments: Arguments) -> None:
    _begin(world, arguments)
    for _, value in _named(arguments, _READ):
        world.read(value)
    _carry_out_the_rest(world, arguments, _READ | {"format"})


def _decoding_reader(world: World, arguments: Arguments) -> None:
    """Read a path as addresses are read: percent signs and `file:` are taken away first."""
    decoded = {
        name: urllib.parse.unquote(re.sub("^file:(//(localhost)?(?=/))?", "", value))
        if isinstance(value, str) and folded(name) in _READ
        else value
        for name, value in arguments.items()
    }
    _reader(world, decoded)


def _writer(world: World, arguments: Arguments) -> None:
    """Write content to a path, or make edits in it."""
    _begin(world, arguments)
    path = _first(arguments, " ".join(_PATHS))
    world.write(path, _first(arguments, "content newstring newsource codeedit text newstr"))
    if _first(arguments, "editmode type") in ("delete", "delete_file"):
        world.tell("is given", ["editmode", "delete"])
    _edit_each(world, _first(arguments, "edits"), path)
    for _, value in _named(arguments, _PATHS):
        world.write(value, "x")
    kept = {"edits", "cellid", "celltype", "diff", "startline", "endline", "useregex",
            "expectedreplacements"}  # fmt: skip
    _carry_out_the_rest(world, arguments, _PATHS | _CONTENTS | kept)


def _joined_writer(world: World, arguments: Arguments) -> None:
    """Write to a folder and a name that are joined."""
    folder, name = _first(arguments, "directory dir folder"), _first(arguments, "filename name")
    if isinstance(name, str) and isinstance(folder, str | None):
        world.write(str(Path(folder or "", name)), _first(arguments, "content text"))
    known = _names("directory dir folder filename name") | _CONTENTS
    _begin(world, arguments)
    _carry_out_the_rest(world, arguments, known)


def _deleter(world: World, arguments: Arguments) -> None:
    _begin(world, arguments)
    for _, value in _named(arguments, _PATHS):
        for one in _texts(value):
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                world.path(one).unlink()
    _carry_out_the_rest(world, arguments, _PATHS | _CONTENTS)


_SOURCES = "source src sourcepath from path oldpath"
_TARGETS = "destination dst dest destinationpath to target newpath moveto"


def _moves(do: Callable[[Path, Path], None]) -> Callable[[World, Arguments], None]:
    def host(world: World, arguments: Arguments) -> None:
        _begin(world, arguments)
        source, target = _first(arguments, _SOURCES), _first(arguments, _TARGETS)
        if isinstance(source, str) and isinstance(target, str):
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                do(world.path(source), world.path(target))
        known = frozenset(f"{_SOURCES} {_TARGETS}".split()) | _CONTENTS
        _carry_out_the_rest(world, arguments, known)

    return host


def _copy(source: Path, target: Path) -> None:
    target.write_bytes(source.read_bytes())


def _link(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    os.link(source, target)


def _editor(world: World, arguments: Arguments) -> None:
    """Do what the verb under `command` says with a file."""
    _begin(world, arguments)
    verb, path = arguments.get("command"), _first(arguments, "path")
    if verb == "view":
        world.read(path)
    elif verb in ("create", "insert", "str_replace", "edit"):
        world.write(path, _first(arguments, "filetext newstr"))
    elif isinstance(verb, str):
        world.tell("is given", ["command", verb])
        world.shell(verb)
    _carry_out_the_rest(world, arguments, _CONTENTS | {"command", "path"})


def _looker(world: World, arguments: Arguments) -> None:
    """Look for files by a pattern, and read them."""
    _begin(world, arguments)
    folder = _first(arguments, "path dirpath dir directory")
    base = str(world.path(folder)) if isinstance(folder, str) and folder else world.cwd
    for value in _values(arguments, "pattern glob include includepattern"):
        world.tell("looks for", value)
        for one in _texts(value):
            with contextlib.suppress(OSError, ValueError, NotImplementedError):
                for found in list(Path(base).glob(one))[:50]:
                    world.read(str(found))
    world.read(base)
    known = "path dirpath dir directory pattern glob include includepattern type i n a b c"
    _carry_out_the_rest(world, arguments, frozenset(known.split()))


# ---------------------------------------------------------------- patches

_PATCHES = _names("patch diff patchtext input unifieddiff patches")


def _patches(apply: Callable[[str], list[tuple[str, str]]]) -> Callable[[World, Arguments], None]:
    def host(world: World, arguments: Arguments) -> None:
        _begin(world, arguments)
        for _, value in _named(arguments, _PATCHES):
            for text in _texts(value):
                for verb, path in apply(text):
                    _patch_one(world, verb, path)
        _carry_out_the_rest(world, arguments, _PATCHES | _CONTENTS)

    return host


def _patch_one(world: World, verb: str, path: str) -> None:
    if verb == "writes":
        world.write(path, "patched")
    else:
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            world.path(path).unlink()


def _patch_program(world: World, arguments: Arguments) -> None:
    """Give a patch to patch(1)."""
    _begin(world, arguments)
    for _, value in _named(arguments, _PATCHES):
        for text in _texts(value):
            for strip in ("-p1", "-p0"):
                world.run(["/real/patch", strip, "-f", "-s"], f"{text}\n")
    _carry_out_the_rest(world, arguments, _PATCHES | _CONTENTS)


def _patch_beside(world: World, arguments: Arguments) -> None:
    """Change the file that stands beside a patch, and those that the patch names."""
    _begin(world, arguments)
    verb = _first(arguments, "type")
    for _, value in _named(arguments, _PATHS):
        for one in _texts(value):
            _patch_one(world, "deletes" if verb == "delete_file" else "writes", one)
    for _, value in _named(arguments, _PATCHES):
        for text in _texts(value):
            for done, path in (*patchers.begin_patch(text), *patchers.unified(text)):
                _patch_one(world, done, path)
        _each_with_a_path(world, value)
    _carry_out_the_rest(world, arguments, _PATCHES | _PATHS | _CONTENTS | {"type"})


def _each_with_a_path(world: World, value: Any) -> None:
    several = _loaded(value)
    for one in several if isinstance(several, list) else [several]:
        if isinstance(one, dict):
            world.write(_first(one, " ".join(_PATHS)), "patched")


# ---------------------------------------------------------------- what goes out, and calls in calls


def _messenger(world: World, arguments: Arguments) -> None:
    """Send a message: each argument is an address or a text of it."""
    _begin(world, arguments)
    for name, value in arguments.items():
        if folded(name) in ("attachment", "attachments", "files", "file", "path"):
            world.read(value)
        if folded(name) not in _REMARKS or isinstance(value, dict | list):
            world.tell("sends", [name, value])
        for one in _texts(value):
            if _CALLS_MANY.search(one):
                world.tell("calls many", one)


def _fetcher(world: World, arguments: Arguments) -> None:
    """Fetch what an address says, and what stands in a prompt."""
    _begin(world, arguments)
    for name, value in arguments.items():
        if folded(name) in _REMARKS | _FOLDERS | _ENVIRONMENTS:
            continue
        world.tell("sends out", [name, value])
        for one in _texts(value):
            for place in re.findall(r"file:(?://(?:localhost)?)?(/\S*)", one):
                world.read(urllib.parse.unquote(place))


def _doer(world: World, arguments: Arguments) -> None:
    """Do one thing with all that is given: pay, deploy, tell an agent."""
    _begin(world, arguments)
    world.tell("does", arguments)
    _carry_out_the_rest(world, arguments, frozenset())


def _keeper(world: World, arguments: Arguments) -> None:
    """Keep notes of one's own, and do nothing."""
    _carry_out_the_rest(world, arguments, _names("todos plan thought content items"))


def _dispatcher(world: World, arguments: Arguments) -> None:
    """Call the tool that is named, with the arguments that are given."""
    _begin(world, arguments)
    names = "toolname recipientname name tool"
    held = "arguments parameters toolinput input args payload params"
    for one in _as_list(_first(arguments, "tooluses calls") or [arguments]):
        if not isinstance(one, dict):
            world.tell("calls", one)
            continue
        inner = _loaded(_first(one, held))
        world.tell("calls", [_first(one, "servername server"), _first(one, names), inner])
        if isinstance(inner, dict):
            _carry_out_the_rest(world, inner, frozenset())
    known = frozenset(f"{names} {held} servername server tooluses calls".split())
    _carry_out_the_rest(world, arguments, known)


def _as_list(value: Any) -> list[Any]:
    found = _loaded(value)
    return found if isinstance(found, list) else [found]


HOSTS: dict[str, Callable[[World, Arguments], None]] = {
    "shell": _hosts_a_command(_shell),
    "shell per element": _hosts_a_command(_per_element),
    "argv": _hosts_a_command(_words),
    "join by space": _hosts_a_command(_join),
    "login shell": _hosts_a_command(_login),
    "HTML-decoding shell": _hosts_a_command(_unescape),
    "session": _session,
    "code": _code,
    "sqlite": _sqlite,
    "reader": _reader,
    "percent-decoding reader": _decoding_reader,
    "writer": _writer,
    "joined writer": _joined_writer,
    "deleter": _deleter,
    "mover": _moves(os.rename),
    "copier": _moves(_copy),
    "linker": _moves(_link),
    "editor": _editor,
    "looker": _looker,
    "begin-patch": _patches(patchers.begin_patch),
    "git patch": _patches(patchers.unified),
    "patch(1)": _patch_program,
    "patch beside a path": _patch_beside,
    "messenger": _messenger,
    "fetcher": _fetcher,
    "doer": _doer,
    "keeper": _keeper,
    "dispatcher": _dispatcher,
}
