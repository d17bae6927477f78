"""Find the effects of each step of a script, the most harmful first. Start reading at
`list_effects`.

It also reads the commands that `sudo`, `sh -c`, `docker run` and similar programs start. Use it for
the first lines of cards, not as proof.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from itertools import chain, pairwise
from shlex import join

from gateway.policy.calls.code_effects import (
    LANGUAGES,
    CodeHarm,
    changed_by_patch,
    cut_out,
    deleted_by_patch,
    find_in_code,
    find_in_sql,
    is_patch,
    list_started,
)
from gateway.policy.calls.danger_patterns import (
    DECODING,
    LOADING,
    Flow,
    find_destructive,
    find_flows,
    trace_sources,
    words_that_act,
)
from gateway.policy.calls.known_commands import DELETING, LISTING, MOVING, READING
from gateway.policy.calls.known_steps import Extent, reach_of_step
from gateway.policy.calls.paths import (
    components,
    delicate,
    is_everything,
    is_executed,
    leads_away,
    lies_outside,
    lies_with_system,
)
from gateway.policy.calls.script import (
    INTERPRETERS,
    ShellScript,
    Step,
    base_name,
    read_script,
    said_by,
)
from gateway.policy.calls.shell_words import strip_wrapper

# The paths that a command may change, also if it is several commands or not understood.
#
# Use it for findings and the heads of cards, not as proof: it may miss changes.

_MOST_TEXT = 20_000
_INTO = re.compile(r"-\w*?t(.*)|--t")  # a folder to copy to, perhaps in one word with its option
_TAKING = re.compile(r"--.*(?:backup|batch|dir|log|remove)")  # or another place to write to
_COPYING = {"cp": _INTO, "install": _INTO, "ln": _INTO, "rsync": _TAKING, "scp": _TAKING}
"""Programs that copy to the last operand, and the options that change that."""
_OPEN = re.compile(r"[$`*?{;]")
"""Characters by which a word may become several words, or options."""
_WRITING = {*_COPYING} | DELETING | MOVING | {
    "chgrp", "chmod", "chown", "dd", "ed", "mkdir", "mkfifo", "mknod", "mktemp", "patch",
    "setfacl", "split", "tar", "tee", "touch", "truncate", "unzip",
}  # fmt: skip
_WRITING_WITH = {
    "curl": ("-o", "--output"),
    "git": ("-C",),
    "make": ("-C", "--directory"),
    "sed": ("-i", "--in-place"),
    "sort": ("-o", "--output"),
    "wget": ("-O", "-P", "--output-document", "--directory-prefix"),
}
_GOING = frozenset({"cd", "pushd"})
_CHANGES_NOTHING = LISTING | READING | _GOING | {
    "[", "echo", "false", "popd", "printf", "pwd", "test", "true", "which",
}  # fmt: skip
_HANDING_ON = frozenset({"fd", "find", "parallel", "xargs"})  # they add operands to commands


@lru_cache(maxsize=1024)
def find_changed_paths(text: str) -> tuple[str, ...]:
    """Return the paths that a command may change, relative to the folder where it begins.

    These are the targets of redirections, the operands of programs that change files, and each
    folder that the command enters to do more than read."""
    script = read_script(text[:_MOST_TEXT])
    found = dict.fromkeys(path for step in script.steps for path in _find_changed(step))
    return tuple(found)


def _find_changed(step: Step) -> Iterator[str]:
    paths = list_written(step)
    for path in paths:
        yield from step.places(path)
    if paths or step.name not in _CHANGES_NOTHING:
        yield from (folder for folder in step.folders or () if folder)


def list_written(step: Step) -> list[str]:
    """Return the paths that a step may change, as written in its words and redirections."""
    told = not _HANDING_ON.intersection(step.wrappers)
    return [*step.writes, *_changed_operands(list(step.words), told=told)]


def _changed_operands(words: list[str], *, told: bool) -> Iterator[str]:
    """Yield the operands of a program that changes files, even if another program starts it."""
    for at, word in enumerate(words):
        name, rest = _name(word), words[at + 1 :]
        flags = _WRITING_WITH.get(name, ())
        writes = any(one.startswith(flags) for one in rest) if flags else False
        if name in _WRITING or writes:
            copies = told and not at and name in _COPYING
            for one in _find_copies(name, rest) if copies else rest:
                value = one.partition("=")[2] if one.startswith("-") or "=" in one else one
                yield from (value,) if value else ()
            return


def _find_copies(name: str, words: list[str]) -> list[str]:
    """Return the operand that a copying program changes: the last one.

    If that is unclear, return all operands. The last one may be an option's value, or an option may
    name a different target."""
    elsewhere = [found for found in map(_COPYING[name].match, words) if found]
    certain = len(words) > 1 and not any(one.startswith("-") for one in words[-2:])
    if certain and not elsewhere and not any(map(_OPEN.search, words)):
        return words[-1:]
    return [*words, *(found[1] for found in elsewhere if found.re is _INTO and found[1])]


def _name(word: str) -> str:
    return word.rpartition("/")[2]


_MOST_LOOKED_AT = 48  # words of a step
_FEW = 4
_OTHER_USERS = frozenset({"doas", "gosu", "pkexec", "run0", "runuser", "su", "su-exec", "sudo"})
_USER_OPTIONS = frozenset({"-u", "--user", "-l", "--login"})
_CONTAINERS = frozenset({"docker", "nerdctl", "podman"})
_REMOTE = frozenset({"autossh", "mosh", "ssh"})
_CLUSTERS = frozenset({"kubectl", "oc"})
_DOING = _CONTAINERS | _CLUSTERS | {
    "apt", "apt-get", "aws", "az", "brew", "bun", "cargo", "dnf", "flux", "gcloud", "gh", "git",
    "go", "helm", "npm", "pip", "pip3", "pnpm", "pulumi", "service", "systemctl", "terraform",
    "tofu", "uv", "yarn",
}  # fmt: skip
"""Programs whose first words after the options name the action."""
_DO = re.compile(r"[A-Za-z][\w./:@-]{0,59}")
_SWITCHES = re.compile(
    r"-[DdgpqvyhV]|--(?:bare|debug|global|insecure.*|no-.*|now|only-.*|quiet|silent|tls\w*|user"
    r"|verbose|yes)"
)
"""Their options that take no value."""
_COMMON = re.compile(r"-o|--(?:cluster|format|namespace|output|profile|project|query|region|zone)")
"""Options whose value is not the object of the action."""
_LOUD = re.compile(
    r"(?:\S*[=:/])?(?:[\w-]*admin\w*|all(?:authenticated)?users|delete|editor|everyone|owner"
    r"|poweruser\w*|public(?:-\w+)*|root|secrets?|0\.0\.0\.0/0|::/0|\*)"
    r"|--(?:all|force|privileged|purge|volumes|replicas=0)|--?auto-approve|-(?:A|af)",
    re.IGNORECASE,
)
"""Words that show who is affected or how much, and so are never cut."""
_PACKS = re.compile(r"-?[a-zA-Z]*c[a-zA-Z]*?(f?)")  # options of `tar` that write an archive
_MOST_DOING = 4  # words that name such a program's action
_MOUNT = re.compile(r"(?:(?:-v|--volume)=?)?(/[^:\s]*|\.[^:\s]*|~[^:\s]*):(/[^:\s]*)(?::\w+)*")
_MOUNTED = re.compile(r"(?:--mount=?)?type=bind,(?=.*?(?:source|src)=([^,]+))(?=.*?(?:target|dst|destination)=([^,]+)).*")  # fmt: skip  # noqa: E501
_LATER = frozenset(
    {"becomes another user", "runs what it downloads", "runs what it decodes"}
)  # shown by the source or the user instead
_WIPING = re.compile(r"dd|fdisk|mkfs(?:\.\w+)?|sfdisk|wipefs|shred|truncate")
_LISTING = frozenset({"fd", "find", "grep", "git", "ls", "rg"})
_IDLE_DEVICES = frozenset({"/dev/null", "if=/dev/zero", "if=/dev/urandom"})
_IDLE = frozenset(
    {":", "[", "cd", "chdir", "echo", "exit", "export", "false", "local", "popd", "printf", "pushd",
     "pwd", "readonly", "return", "set", "shift", "shopt", "sleep", "test", "true", "umask",
     "unset", "wait", ""}
)  # fmt: skip
_REACHING = LOADING | {"ftp", "rsync", "sftp", "ssh", "telnet"}
_CONNECTING = frozenset({"nc", "ncat", "netcat", "socat", "telnet"})
_COPYING_AFAR = frozenset({"rclone", "rsync", "scp", "sftp"})
_AFAR = re.compile(r"(?:[a-z0-9]+://[^\s]+|(?:[\w.-]+@)?[\w.-]+:(?!\\).*)", re.IGNORECASE)
_CLOUD = re.compile(r"(?:s3|gs|az|https?)://\S+")
_PUBLISHING = re.compile(
    r"(?:(?:npm|pnpm|yarn|cargo|poetry|gem|uv|flit) (?:publish|push)|(?:docker|podman|helm|nuget) "
    r"push|twine upload|gh (?:gist create|release (?:create|upload))|vercel|netlify|surge)\b"
)
_SENT = re.compile(
    r"(-d|-F|-T|--data(?:-[a-z]+)?|--form(?:-string)?|--json|--upload-file|--post-data|--post-file"
    r"|--body-data|--body-file)(?:=(.*)|(?<=-[dFT])(.+))?",
    re.DOTALL,
)
_METHOD = re.compile(r"(?:-X|--request|--method)=?(.*)")
_SAFE_METHODS = frozenset({"", "GET", "HEAD", "OPTIONS"})
_HOST = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://)?(?:[^@/\s]*@)?([\w.-]+|\[[0-9a-f:]+\])", re.IGNORECASE
)
_CODE_OPTIONS = re.compile(r"-[A-Za-z]*[ceErp]|--eval|--print|--command|-Command")
_SQL_CLIENTS = frozenset(
    {"bq", "clickhouse", "clickhouse-client", "cockroach", "duckdb", "mariadb", "mysql", "psql",
     "sqlcmd", "sqlite3", "sqlplus", "usql"}
)  # fmt: skip


class Harm(IntEnum):
    """How harmful a step is, the worst first."""

    RUN_LOADED = 0
    DELETE_OUTSIDE = 1
    DESTROY = 2
    RIGHTS = 3
    WRITE_OUTSIDE = 4
    SEND = 5
    RUN_CODE = 6
    REACH = 7
    RUN = 8
    RUN_PROJECT = 9
    CHANGE = 10
    LOOK = 11
    IDLE = 12


_HARM_OF_REACH = {
    Extent.LOOK: Harm.LOOK, Extent.CHANGE: Harm.CHANGE, Extent.RUN: Harm.RUN_PROJECT,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StepEffect:
    """One effect of a step: a verb that the gateway chose, and its objects in `names`, the worst
    first.

    Without `names`, the step's `words` are shown, and `key` lists the positions of the words that a
    short form must keep, the most important first. `host` is the source or target, `user` is the
    user that the step runs as, and `place` is "on HOST" or "in CONTAINER".
    """

    harm: Harm
    verb: str
    names: tuple[str, ...] = ()
    host: str = ""
    user: str = ""
    place: str = ""
    words: tuple[str, ...] = ()
    key: tuple[int, ...] = ()
    whole: bool = True  # whether the words are the complete step
    own: Harm = Harm.IDLE  # the harm without another user's rights


@dataclass(frozen=True, slots=True)
class _Scene:
    """A script, the folder that the agent may change, and the folder where the script begins."""

    script: ShellScript
    home: tuple[str, ...] | None
    home_text: str | None
    base: str | None


@lru_cache(maxsize=1024)
def list_effects(text: str, home: str | None, base: str | None) -> tuple[StepEffect, ...]:
    """Return the effects of a script, the most harmful first; equally harmful ones keep their
    order. `home` is the folder that the agent may change, `base` the folder where the script
    begins."""
    script = read_script(text)
    scene = _Scene(script, components(home) if home else None, home, base)
    if is_patch(text):
        return tuple(_effects_of_patch(scene, text))
    flows = list(find_flows(script))
    taken = {at for flow in flows for at in (*flow.sources, *flow.runners)}
    found = [_effect_of_flow(scene, flow) for flow in flows]
    made = [list(_effects_of(scene, at, step)) for at, step in enumerate(script.steps)]
    feeding = {fed for at, effects in enumerate(made) if any(map(_takes_up, effects))
               for fed in trace_sources(script, script.steps[at].fed_by)}  # fmt: skip
    for at, effects in enumerate(made):
        most = Harm.DESTROY if at in taken else Harm.SEND if at in feeding else Harm.IDLE
        found += (one for one in effects if one.harm <= most or one.verb == "Sends")
    unknown = [] if script.whole else [_effect_of_rest(script, text)]
    unique = dict.fromkeys((*found, *unknown))
    return tuple(sorted(unique, key=lambda one: (one.harm, one.own)))


def _takes_up(effect: StepEffect) -> bool:
    """Return whether the sentence about an effect already names the input from earlier steps."""
    return effect.verb in ("Changes", "Deletes", "Sends")


def _effect_of_rest(script: ShellScript, text: str) -> StepEffect:
    """Return an effect if a script that is not fully understood looks destructive. Strings that the
    script only stores or searches for do not count."""
    for at, step in enumerate(script.steps):
        acting = {*words_that_act(script, at)}
        for word in step.words[1:]:
            text = text if word in acting or " " not in word else text.replace(word, " ")
    signs = [one for one in find_destructive(text) if one not in _LATER]
    return StepEffect(Harm.DESTROY if signs else Harm.IDLE, "", names=tuple(signs[:1]))


# ---------------------------------------------------------------- downloads that run


def _effect_of_flow(scene: _Scene, flow: Flow) -> StepEffect:
    steps = scene.script.steps
    loaders = [steps[at] for at in flow.sources if steps[at].name in LOADING]
    user = next((one for at in flow.runners if (one := _user_of(steps[at]))), "")
    place = next((one for at in flow.runners if (one := _place_of(steps[at]))), "")
    if not loaders:
        decoded = [steps[at].name for at in flow.sources if steps[at].name in DECODING]
        return StepEffect(Harm.RUN_LOADED, "Runs what", tuple(decoded[:1]), user=user, place=place)
    address = _address_of(loaders[0])
    rest = address.partition("://")[2] or address
    path = rest.partition("?")[0].rstrip("/")
    name = path.rpartition("/")[2] if "/" in path else ""
    return StepEffect(Harm.RUN_LOADED, "Downloads", (name,) if name else (), host=_host_of(address),
                  user=user, place=place)  # fmt: skip


def _address_of(step: Step) -> str:
    """Return the address from which a program downloads."""
    words = [one for one in step.words[1:] if not one.startswith("-")]
    return next((one for one in words if "://" in one), words[-1] if words else step.name)


def _host_of(address: str) -> str:
    found = _HOST.match(address)
    return found[1] if found else address


# ---------------------------------------------------------------- effects of one step


def _effects_of(scene: _Scene, at: int, step: Step) -> Iterator[StepEffect]:
    if step.name in ("find", "fd") and any(one in step.words for one in ("-exec", "-execdir")):
        return  # the program that it starts is a separate step
    if at in scene.script.run and said_by(step) and not step.writes:
        return  # its output was read as separate steps
    step = _see_from_host(_name_found(step))
    made = [*_effects_of_program(scene, at, step)]
    user, place = _user_of(step), _place_of(step)
    for one in made:
        raised = user and one.harm is not Harm.IDLE
        harm = min(one.harm, Harm.RIGHTS) if raised else one.harm
        where = place if one.names or one.words[:1] != step.wrapping[:1] else ""
        own = one.harm if one.own is Harm.IDLE else one.own
        yield replace(one, harm=harm, user=user or one.user, place=one.place or where, own=own)
    if step.writes:
        said = made[0].names if made and made[0].verb == "Changes" else ()
        paths = [one for path in step.writes for one in _places(step, path)]
        if left := [one for one in paths if one not in said]:
            yield _change(scene, left, user, place)


def _effects_of_program(scene: _Scene, at: int, step: Step) -> Iterator[StepEffect]:
    first = next(iter(_find_doing(step.words)), 0)
    if step.name in _CONTAINERS | _CLUSTERS and first > 1 and step.words[first] in ("exec", "run"):
        words = join((step.name, *step.words[first:]))
        yield from list_effects(words, scene.home_text, scene.base)
        return
    patches = step.name in ("apply_patch", "patch") or step.words[:2] == ("git", "apply")
    if patches and {"-R", "--reverse"}.isdisjoint(step.words):
        texts = filter(is_patch, (*step.words[1:], step.given or ""))
        if made := [one for text in texts for one in _effects_of_patch(scene, text)]:
            yield from made
            return
    if step.name in DELETING or (step.name == "find" and "-delete" in step.words):
        yield _delete(scene, at, step)
        return
    if (given := _code_of(step)) is not None or step.name in _SQL_CLIENTS:
        yield from _run_code(scene, step, given)
        return
    acting = [*words_that_act(scene.script, at)]
    acting = acting[: len(acting) - 2 * len(step.writes)]  # without redirections
    signs = [one for one in find_destructive(" ".join(acting)) if one not in _LATER]
    written = [path for path in list_written(step) if path not in step.writes]
    if step.name == "tar" and (packs := _PACKS.fullmatch("".join(step.words[1:2]))):
        written = [one for one in step.words[2:3] if packs[1] and one != "-"]
    sent = _sent_by(scene, at, step)
    if signs:
        yield _destroy(scene, step, signs[0], written)
    elif sent is not None:
        yield sent
    elif step.name == "tee" and written:
        yield _change(scene, [one for path in written for one in _places(step, path)], "", "")
    else:
        yield _run(scene, step, written)


def _delete(scene: _Scene, at: int, step: Step) -> StepEffect:
    if step.name == "find":
        found = _found_by(step.words[1:])
    else:
        found = [*_operands(step.words[1:])]
        if "find" in step.wrappers:
            found = _found_by(_words_of_wrapper(step, "find")) or found
        elif {"xargs", "parallel"} & set(step.wrappers):
            listed = (step.given or "").split()
            named = [*scene.script.sources(step.fed_by)]
            lists = named and not any(one.name in _LISTING for one in named)
            if not listed and (lists or step.reads):
                names = [one.name for one in named]
                said = (*_read_by_sources(scene, step), *step.reads, *names)[:1]
                return StepEffect(Harm.DESTROY, "Deletes files that are named by", said)
            found += listed or _read_by_sources(scene, step)
            found = found or ["*"]
    if not found:
        return StepEffect(Harm.DESTROY, "Deletes")
    return _say_deleted(
        scene, [one for path in found for one in _places(step, path.replace("$()", "$(…)"))]
    )


def _say_deleted(scene: _Scene, paths: Sequence[str]) -> StepEffect:
    ranked = sorted(dict.fromkeys(paths), key=lambda path: _distance(scene, path))
    far = bool(ranked) and _distance(scene, ranked[0]) < _INSIDE
    return StepEffect(Harm.DELETE_OUTSIDE if far else Harm.DESTROY, "Deletes", tuple(ranked))


def _effects_of_patch(scene: _Scene, text: str) -> Iterator[StepEffect]:
    if deleted := deleted_by_patch(text):
        yield _say_deleted(scene, deleted)
    if changed := changed_by_patch(text):
        yield _change(scene, changed, "", "")


def _destroy(scene: _Scene, step: Step, sign: str, written: Sequence[str]) -> StepEffect:
    """Return the effect of a step that looks destructive, with its key words and the outside paths
    that it changes."""
    words = (*step.wrapping, step.name, *step.words[1:])[:_MOST_LOOKED_AT]
    inner = (step.name, *step.words[1:])[:_MOST_LOOKED_AT]
    if sign in set(find_destructive(" ".join(inner))) or not step.wrapping:
        words = inner
    far = _list_far(scene, step, written)
    if step.name in _COPYING_AFAR:
        far += [one for one in _operands(step.words[1:]) if _AFAR.fullmatch(one)]
    core = _core_of(words, sign)
    afar = [at for at, one in enumerate(words) if one in far or (far and _names_any(one, far))]
    devices = [at for at, one in enumerate(words) if "/dev/" in one and one not in _IDLE_DEVICES]
    key = tuple(dict.fromkeys((*core, *afar[:1], *devices[-1:], *_find_said(scene, words))))
    harm = Harm.DELETE_OUTSIDE if far or _WIPING.fullmatch(step.name) else Harm.DESTROY
    return StepEffect(harm, "Runs", words=words, key=key, whole=_says_all(step))


def _names_any(word: str, paths: Sequence[str]) -> bool:
    return any(path and word.endswith(path) for path in paths)


def _core_of(words: Sequence[str], sign: str) -> tuple[int, ...]:
    """Return the positions of the program's name and of the fewest words that still look
    destructive."""
    kept = list(range(len(words)))
    for at in sorted(kept, key=lambda at: not words[at].startswith("-")):
        rest = [one for one in kept if one != at]
        if sign in set(find_destructive(" ".join(words[one] for one in rest))):
            kept = rest
    return (0,) if len(kept) == len(words) > _FEW else tuple(dict.fromkeys((0, *kept)))


def _change(scene: _Scene, paths: Sequence[str], user: str, place: str) -> StepEffect:
    """Return the effect of changing paths. Paths outside, or of files that run later, come
    first."""
    ranked = sorted(dict.fromkeys(paths), key=lambda path: _distance(scene, path, change=True))
    far = _distance(scene, ranked[0], change=True) < _INSIDE
    harm = Harm.WRITE_OUTSIDE if far else Harm.CHANGE
    return StepEffect(min(harm, Harm.RIGHTS) if user else harm, "Changes", tuple(ranked),
                  user=user, place=place, own=harm)  # fmt: skip


def _run(scene: _Scene, step: Step, written: Sequence[str]) -> StepEffect:
    words = (step.name, *step.words[1:])[:_MOST_LOOKED_AT]
    said = " ".join(words)
    # Wrappers change where a step runs, not what it does.
    bare = replace(step, wrappers=(), wrapping=(), exact=True, folders=step.folders or ("",),
                   sets=tuple(one for one in step.sets if not one.islower()))  # fmt: skip
    reach = reach_of_step(bare, scene.base)
    if step.name in _IDLE:
        harm = Harm.IDLE
    elif _PUBLISHING.match(said):
        harm = Harm.SEND
    elif step.name in _REACHING:
        harm = Harm.REACH
    elif reach is not None:
        harm = _HARM_OF_REACH[reach]
    else:
        loud = step.name in INTERPRETERS or step.is_open or _WIPING.fullmatch(step.name)
        harm = Harm.RUN_CODE if loud else Harm.RUN
    far = _list_far(scene, step, written)
    harm = min(harm, Harm.WRITE_OUTSIDE) if far else harm
    keys = [at for at, one in enumerate(words) if at and (one in far or _names_any(one, far))]
    keys += [at for at, one in enumerate(words) if at and ("://" in one or step.name in _REMOTE)]
    key = tuple(dict.fromkeys((0, *_find_said(scene, words), *keys[:1])))
    return StepEffect(harm, "Runs", words=words, key=key, whole=_says_all(step))


def _find_said(scene: _Scene, words: Sequence[str]) -> Iterator[int]:
    """Yield the positions of the words that are never left out: the action, and its risky
    objects."""
    doing = _find_doing(words)
    yield from doing[:2]
    for at, word in enumerate(words[1:], 1):
        named = word[:1] != "-" and (is_everything(word) or delicate(word, scene.base) is not None)
        if _LOUD.fullmatch(word) or (named and not _COMMON.fullmatch(words[at - 1])):
            yield at
    yield from doing[2:]
    # If no object follows the action, an option's value is it: `aws rds … --name X`.
    if doing and len(doing) < _MOST_DOING - 1 and words[0] not in _CLUSTERS:
        behind = range(doing[-1] + 2, len(words))
        yield from [at for at in behind if words[at][:1] != "-" and words[at - 1][:2] == "--"
                    and not _COMMON.fullmatch(words[at - 1])][:1]  # fmt: skip


def _find_doing(words: Sequence[str]) -> range:
    """Return the positions of the words that name a program's action, for programs such as
    `aws`."""
    at = 1
    while words[0] in _DOING and at < len(words) and words[at].startswith("-"):
        at += 1 if "=" in words[at] or _SWITCHES.fullmatch(words[at]) else 2
    ends = at
    while words[0] in _DOING and ends < len(words) and _DO.fullmatch(words[ends]):
        ends += 1
    return range(at, min(ends, at + _MOST_DOING))


def _list_far(scene: _Scene, step: Step, paths: Sequence[str]) -> list[str]:
    """Return the paths that are outside, or whose content runs later."""
    return [
        path
        for path in paths
        if any(_distance(scene, one, change=True) < _INSIDE for one in _places(step, path))
    ]


def _says_all(step: Step) -> bool:
    """Return whether the words of a step describe it completely: it has no variables, redirections,
    input, quotes or guessed options of wrappers."""
    beside = (step.sets, step.writes, step.reads, step.given)
    quoted = any(not one or re.search(r"[\s\"'\\]", one) for one in step.words)
    return step.exact and not quoted and not any(beside)


# ---------------------------------------------------------------- code


def _code_of(step: Step) -> str | None:
    """Return the code that an interpreter gets as an argument, or None."""
    if step.name not in LANGUAGES:
        return None
    words = step.words[1:]
    if LANGUAGES[step.name] == "awk":
        return next((one for one in words if "system" in one), None)
    for at, word in enumerate(words):
        if _CODE_OPTIONS.fullmatch(word) and at + 1 < len(words):
            return words[at + 1]
        if not word.startswith("-"):
            return None
    return step.given


def _run_code(scene: _Scene, step: Step, code: str | None) -> Iterator[StepEffect]:
    """Yield the effects of the code that an interpreter or database gets, and of commands in it."""
    if step.name in _SQL_CLIENTS:
        yield _run_sql(step)
        return
    text, language = code or "", LANGUAGES[step.name]
    started = list_started(text, language)
    for one in started[:_FEW]:
        yield from list_effects(one.command, scene.home_text, scene.base)
    left = cut_out(text, started[:_FEW])
    if not started or find_in_code(left) is not None:
        yield _say_code(step, left, language)


def _run_sql(step: Step) -> StepEffect:
    words = (step.name, *step.words[1:])[:_MOST_LOOKED_AT]
    for text in (*step.words[1:], step.given or ""):
        if (found := find_in_sql(text)) is not None and found.harm is not CodeHarm.LOOK:
            harm = Harm.DESTROY if found.harm is CodeHarm.DESTROY else Harm.RUN_CODE
            return StepEffect(harm, found.verb, (found.text,))
    return StepEffect(Harm.REACH, "Runs", words=words, key=(0,), whole=_says_all(step))


def _say_code(step: Step, text: str, language: str) -> StepEffect:
    words, lines = (step.name, *step.words[1:])[:_MOST_LOOKED_AT], text.strip().count("\n") + 1
    said = f"Runs {language} code" + (f" of {lines} lines" if lines > 1 else "")
    found = find_in_code(text)
    if found is None:
        signs = next((one for one in find_destructive(text) if one not in _LATER), None)
        short = lines == 1 and step.given is None
        if signs is None and short:
            return StepEffect(Harm.RUN_CODE, "Runs", words=words, key=(0,), whole=_says_all(step))
        return StepEffect(Harm.DESTROY if signs else Harm.RUN_CODE, said, ())
    destroys = found.harm is CodeHarm.DESTROY or any(find_destructive(found.text))
    return StepEffect(Harm.DESTROY if destroys else Harm.RUN_CODE, f"{said}: ", (found.text,))


# ---------------------------------------------------------------- sending


def _sent_by(scene: _Scene, at: int, step: Step) -> StepEffect | None:
    """Return the effect of a step that clearly sends data to another machine, or None."""
    words = step.words[1:]
    if step.name in _COPYING_AFAR or (step.name in ("aws", "gsutil", "gcloud", "az", "s3cmd")):
        operands = [*_operands(words)]
        afar = _CLOUD if step.name not in _COPYING_AFAR else _AFAR
        if len(operands) > 1 and afar.fullmatch(operands[-1]):
            sources = [one for one in operands[:-1] if step.name in _COPYING_AFAR
                       or one not in ("s3", "cp", "mv", "sync", "storage", "put")]  # fmt: skip
            return StepEffect(Harm.SEND, "Sends", tuple(sources), host=operands[-1])
        return None
    if step.name == "git" and words[:1] == ("push",):
        addresses = (one for one in words if "@" in one or "://" in one)
        where = next(filter(_AFAR.fullmatch, addresses), "")
        return StepEffect(Harm.SEND, "Pushes to", (where,)) if where else None
    if step.name in _CONNECTING:
        got = [*step.reads, *_read_by_sources(scene, step)]
        hosts = [one for one in _operands(words) if not one.isdecimal()]
        return StepEffect(Harm.SEND, "Sends", tuple(got), host=" ".join(hosts[:1]) or step.name)
    if step.name not in LOADING:
        return None
    return _sent_to_web(scene, step)


def _sent_to_web(scene: _Scene, step: Step) -> StepEffect | None:
    words = step.words[1:]
    sent: list[str] = []
    told, method = False, ""
    for at, word in enumerate(words):
        following = words[at + 1] if at + 1 < len(words) else ""
        if found := _SENT.fullmatch(word):
            told = True
            value = found[2] or found[3] or following
            is_file = found[1] in ("-T", "--upload-file", "--post-file", "--body-file")
            name = value if is_file else value.partition("@")[2].partition(";")[0]
            sent += [name] if name and name != "-" else []
        elif found := _METHOD.fullmatch(word):
            method = found[1] or following
    got = _read_by_sources(scene, step) if told or step.name != "wget" else []
    if not told and not got and method.upper() in _SAFE_METHODS:
        return None
    where = _host_of(_address_of(step))
    names = tuple(dict.fromkeys((*sent, *got)))
    if not told and not got:
        return StepEffect(Harm.SEND, f"Sends {method.upper()[:8]} to", (_address_of(step),))
    return StepEffect(Harm.SEND, "Sends", names, host=where)


def _read_by_sources(scene: _Scene, step: Step) -> list[str]:
    """Return the files that the steps read whose output is this step's input."""
    found: list[str] = []
    for one in scene.script.sources(step.fed_by):
        operands = [*_operands(one.words[1:])] if one.name not in _IDLE else []
        if one.name == "find":
            operands = _found_by(one.words[1:])
        packs = one.name == "tar" and "".join(one.words[1:2])[:1] != "-"
        if packs or one.name in ("awk", "git", "grep", "jq", "rg", "sed"):
            operands = operands[1:]
        found += chain(one.reads, operands[:4])
    return list(dict.fromkeys(found))


# ---------------------------------------------------------------- words, paths, users

_SYSTEM, _AFAR_FROM_HOME, _UNSURE, _INSIDE = range(4)


def _distance(scene: _Scene, path: str, *, change: bool = False) -> int:
    """Return how far a path is from the folder that the agent may change; a lower number is
    farther."""
    home, base = scene.home, scene.base
    if is_everything(path) or path in ("*", "/*", "~/*") or lies_with_system(path, home, base):
        return _SYSTEM
    away = leads_away(path) if home is None else lies_outside(path, home, base)
    if away or path.startswith("../"):
        return _AFAR_FROM_HOME
    if path.startswith("$") or path in (".", "./"):
        return _UNSURE
    runs = change and (is_executed(path) or delicate(path, base) is not None)
    return _UNSURE if runs else _INSIDE


def _places(step: Step, path: str) -> tuple[str, ...]:
    """Return a path relative to the script's folder, for each folder of the step."""
    if step.folders is None:
        return (path,)
    return tuple(posixpath.normpath(one) if path[:2] == ".." or step.folders != ("",) else one
                 for one in step.places(path))  # fmt: skip


def _see_from_host(step: Step) -> Step:
    """Return a step that runs in a container, with mounted paths written as on the host."""
    mounts = [*_mounts_of(step)]
    if not mounts:
        return step

    def see(word: str) -> str:
        option, equals, path = word.rpartition("=")
        for outer, inner in mounts:
            if path == inner or path.startswith(f"{inner.rstrip('/')}/"):
                left = path[len(inner.rstrip("/")) :].lstrip("/")
                return f"{option}{equals}{posixpath.join(outer, left)}"
        return word

    folders = None if step.folders is None else tuple(map(see, step.folders))
    return replace(step, words=tuple(map(see, step.words)), writes=tuple(map(see, step.writes)),
                   reads=tuple(map(see, step.reads)), folders=folders)  # fmt: skip


def _name_found(step: Step) -> Step:
    """Return a step that `find` starts, with `{}` replaced by the files that `find` finds."""
    if "find" not in step.wrappers or "{}" not in step.words:
        return step
    found = _found_by(_words_of_wrapper(step, "find"))[0]
    return replace(step, words=tuple(found if one == "{}" else one for one in step.words))


def _mounts_of(step: Step) -> Iterator[tuple[str, str]]:
    if not _CONTAINERS.isdisjoint(step.wrappers):
        for word in step.wrapping:
            if found := _MOUNT.fullmatch(word) or _MOUNTED.fullmatch(word):
                yield found[1], found[2]


def _place_of(step: Step) -> str:
    """Return the machine or container where a wrapper starts a step, or ""."""
    for at, word in enumerate(map(base_name, step.wrapping)):
        if word in _REMOTE | _CONTAINERS | _CLUSTERS | {"docker-compose"}:
            found = strip_wrapper((word, *step.wrapping[at + 1 :], step.name))
            if found is not None and found.operands and found.names[1:] != ("run",):
                return f"{'on' if word in _REMOTE else 'in'} {found.operands[-1]}"
    return ""


def _user_of(step: Step) -> str:
    """Return the user that a wrapper runs a step as, or ""."""
    for name in step.wrappers:
        if name in _OTHER_USERS:
            words = _words_of_wrapper(step, name)
            for at, word in enumerate(words):
                option, equals, value = word.partition("=")
                if option in _USER_OPTIONS and (equals or at + 1 < len(words)):
                    return value if equals else words[at + 1]
                if word.startswith("-u") and word[2:]:
                    return word[2:]
            named = [one for one in words if not one.startswith("-")]
            return named[0] if named and name in ("gosu", "su", "su-exec") else "root"
    return ""


def _words_of_wrapper(step: Step, name: str) -> list[str]:
    """Return the words of one of a step's wrappers, without the program that it starts."""
    words = list(step.wrapping)
    begins = next((at for at, one in enumerate(words) if base_name(one) == name), len(words))
    inner = step.wrappers[step.wrappers.index(name) + 1 :]
    ends = next((at for at in range(begins + 1, len(words)) if base_name(words[at]) in inner
                 and base_name(words[at]) not in (name,)), len(words))  # fmt: skip
    return words[begins + 1 : ends]


def _operands(words: Sequence[str]) -> Iterator[str]:
    dashed = list(words).index("--") if "--" in words else len(words)
    yield from (one for one in words[:dashed] if one and not one.startswith("-"))
    yield from words[dashed + 1 :]


def _found_by(words: Sequence[str]) -> list[str]:
    """Return what `find` finds: its folders, each with the name pattern appended."""
    at = next((at for at, word in enumerate(words) if word.startswith(("-", "(", "!"))), len(words))
    pattern = next((two for one, two in pairwise(words[at:]) if one in ("-name", "-iname")), "")
    folders = [*words[:at]] or ["."]
    return [f"{one.rstrip('/')}/**/{pattern}" if pattern else one for one in folders]
