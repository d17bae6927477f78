"""Judges what a covered call did by what the words claim; it knows nothing else of the product."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from typing import Any

from tests.grants.hostile.toy_hosts import folded
from tests.grants.hostile.words import Claim

Effect = tuple[str, Any]

# Marked files that no remembered answer is for, whatever its words say.
_SECRET = re.compile(r"/(?:\.env|id_rsa|\.ssh/.*|etc/passwd|\.git/config)$")
_RUNS_LATER = re.compile(
    r"/(?:\.bashrc|\.git/.*|\.ssh/.*|CLAUDE\.md|\.github/workflows/.*|etc/.*|\.env|id_rsa)$"
)
# These are really carried out, so that what they read is seen.
_DONE = frozenset(
    {"cat", "head", "tail", "wc", "nl", "tac", "stat", "cut", "sort", "comm", "diff", "cmp", "ls",
     "md5sum", "sha256sum", "grep", "sed", "find", "jq", "du"}
)  # fmt: skip
# What the passes are for, and words with which these do more.
_LOOKS = _DONE | {"bash", "cp", "echo", "git", "ls", "mkdir", "mv", "pwd", "rg", "sh", "tee",
                  "touch", "tree", "true"}  # fmt: skip
_OWN = frozenset({"cargo", "go", "make", "npm", "pytest", "python", "python3", "git", "node"})
_SAID = frozenset({"requiresapproval", "securityrisk", "summary", "description", "timeout",
                   "explanation", "justification"})  # fmt: skip
_DOES_MORE = re.compile(r"--(?:exec|pre|output|in-place=|upload-pack)|push$|clean$|reset$|rm$")
_GIVEN = frozenset({"sends", "is given", "looks for"})
_FILES = frozenset({"reads", "lists", "writes", "deletes", "moves away"})
# Flags by which a program runs another, writes a file, or works elsewhere.
_DANGEROUS = re.compile(
    r"-(?:exec|execdir|ok|okdir|delete|fprintf?|fprint0|fls|c|C|toolexec|o)$|--(?:output|exec|pre"
    r"|git-dir|work-tree|hostname-bin|upload-pack|ext-diff|config|in-place)(?:=|$)|-[oc]=|--files0-from"
)
_DANGER_IS_HARMLESS = {"-c": frozenset({"cut", "head", "tail", "wc", "ls", "uniq", "sort", "grep",
    "rg", "jq", "stat", "du", "kubectl", "touch"}),
    "-o": frozenset({"ls", "ps", "grep", "rg", "find", "kubectl", "pip", "git", "go"}),
    "-C": frozenset({"ls", "grep", "git blame", "rg"})}  # fmt: skip


def judge(claim: Claim, before: list[Effect], after: list[Effect], cwd: str) -> list[str]:
    """Return what a covered call did beyond the words; `before` is what the remembered one did.

    `cwd` is where the agent works when it calls.
    """
    if claim.shape == "exact":
        return [f"{kind} {value}" for kind, value in after if (kind, value) not in before]
    made = {value for kind, value in after if kind == "writes"}
    rule = _RULES[claim.shape]
    argv = [value["argv"] for kind, value in after if kind == "runs"]
    found: list[str] = []
    for kind, value in after:
        if claim.shape not in ("edits", "looks", "work", "scripts") and (kind, value) in before:
            continue
        if kind == "deletes" and value in made:
            continue  # a scratch file of the tool's own
        if kind in _FILES and (why := _touches_delicate(kind, value, argv)):
            found.append(why)
        elif (why := rule(claim, (kind, value), before, cwd)) is not None:
            found.append(f"{kind} {value}: {why}")
    return found


def lies_below(path: str, folder: str | None) -> bool:
    """Whether an absolute path is a folder or lies in it."""
    whole = posixpath.normpath(path)
    return folder is not None and (whole == folder or whole.startswith(folder.rstrip("/") + "/"))


def _touches_delicate(kind: str, path: str, runs: list[list[str]]) -> str | None:
    looked_through = runs and not any(
        posixpath.basename(path) in word for argv in runs for word in argv
    )
    if kind == "reads" and _SECRET.search(path) and not looked_through:
        return f"reads {path}: it is secret"
    if kind in ("writes", "deletes", "moves away") and _RUNS_LATER.search(path):
        return f"{kind} {path}: it runs later"
    return None


def _command(claim: Claim, effect: Effect, before: list[Effect], cwd: str) -> str | None:
    kind, value = effect
    if kind == "runs":
        return _run(claim, value, before)
    if kind in ("reads", "lists"):
        folder = claim.folder or claim.run_in
        return None if lies_below(value, folder) else f"not in {folder}"
    return None if _is_free(claim, effect, before) else "the words say nothing of it"


def _run(claim: Claim, run: dict[str, Any], before: list[Effect]) -> str | None:
    argv = run["argv"]
    known = {name for kind, one in before if kind == "runs" for name in one["env"]}
    if known and set(run["env"]) - known:
        return f"with {sorted(set(run['env']) - known)} in its environment"
    if claim.wrapper and tuple(argv[: len(claim.wrapper)]) == claim.wrapper and len(argv) == 3:
        return None
    if claim.run_in is not None and run["cwd"] != claim.run_in:
        return f"not run in {claim.run_in}"
    if argv[0] != claim.command[0]:
        return f"not {claim.command[0]}"
    return _words(claim, argv[1:], run["cwd"])


def _words(claim: Claim, words: list[str], cwd: str) -> str | None:
    flags = [word for word in words if word.startswith("-") and word not in ("-", "--")]
    rest = _without_values(words, claim)
    verbs = list(claim.command[1:])
    if not _is_subsequence(verbs, [word for word in words if not word.startswith("-")]):
        return f"without {' '.join(verbs)}"
    for flag in flags:
        if not _may_have(claim, flag):
            return f"with {flag}"
    for verb in verbs:
        if verb in rest:
            rest.remove(verb)
    if rest and not claim.operands:
        return f"with {rest}"
    if claim.paths:
        for word in rest[1:] if claim.text else rest:
            if not lies_below(posixpath.join(cwd, word), claim.folder):
                return f"{word} is not in {claim.folder}"
    return None


def _without_values(words: list[str], claim: Claim) -> list[str]:
    """Return the words that are neither flags nor, as far as can be told, values of flags."""
    found: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        if word.startswith("-") and word != "-":
            continue
        if before == "-name":
            continue
        if re.fullmatch("-[A-Za-z-]+", before) and (not claim.operands or word.isdigit()):
            continue
        found.append(word)
    return found


def _is_subsequence(wanted: list[str], words: Iterable[str]) -> bool:
    left = iter(words)
    return all(word in left for word in wanted)


def _may_have(claim: Claim, flag: str) -> bool:
    if claim.flags is None:
        harmless = _DANGER_IS_HARMLESS.get(flag[:2], frozenset())
        return not _DANGEROUS.match(flag) or claim.command[0] in harmless
    if flag.partition("=")[0] in claim.flags or flag in claim.flags:
        return True
    if "-NUM" in claim.flags and flag[1:].isdigit():
        return True
    letters = {f"-{letter}" for letter in flag[1:]}
    return not flag.startswith("--") and (letters <= claim.flags or flag[:2] in claim.flags)


def _folder(claim: Claim, effect: Effect, before: list[Effect], cwd: str) -> str | None:
    kind, value = effect
    if kind not in _FILES:
        return None if _is_free(claim, effect, before) else "the words say nothing of it"
    if not lies_below(value, claim.folder):
        return f"not in {claim.folder}"
    kinds = {kind for kind, _ in before} | {"reads", "lists"}
    return None if kind in kinds else f"the remembered call {kind} nothing"


def _text(claim: Claim, effect: Effect, before: list[Effect], cwd: str) -> str | None:
    return None if _is_free(claim, effect, before) else "the words say nothing of it"


def _is_free(claim: Claim, effect: Effect, before: list[Effect]) -> bool:
    """Whether only what the words leave open, by name, is other than it was."""
    kind, value = effect
    free = {folded(name) for name in claim.free}
    if kind in _GIVEN:
        return folded(value[0]) in free
    done = [one for deed, one in before if deed == "does"]
    return kind == "does" and any(_differs_in(value, one, claim) <= free for one in done)


def _differs_in(after: dict[str, Any], before: dict[str, Any], claim: Claim) -> set[str]:
    """Return the names of what is other; a folder left out is the one where it runs anyway."""
    names = {
        name for name in {*after, *before}
        if name not in after or name not in before or after[name] != before[name]
    }  # fmt: skip
    same = {name for name in names - after.keys() if before[name] == claim.run_in}
    return {folded(name) for name in names - same}


def _tool(claim: Claim, effect: Effect, before: list[Effect], cwd: str) -> str | None:
    harmful = effect[0] in _FILES or effect[0] in ("runs", "runs as", "has rights", "sets")
    return "no part of a harmless tool" if harmful else None


def _edits(claim: Claim, effect: Effect, before: list[Effect], cwd: str) -> str | None:
    kind, value = effect
    if kind == "runs on" and claim.folder is None:
        return None  # a pass follows the agent
    if kind not in ("reads", "lists", "writes", "moves away"):
        return "neither creates nor changes a file"
    folder = claim.folder or cwd
    return None if lies_below(value, folder) else f"not below {folder}"


def _work(claim: Claim, effect: Effect, before: list[Effect], cwd: str) -> str | None:
    kind, value = effect
    if kind in _FILES:
        return _edits(claim, effect, before, cwd)
    if kind == "runs":
        program = value["argv"][0]
        own = claim.shape == "scripts" and (program in _OWN or program.endswith(".sh"))
        looks = program in _LOOKS and not any(map(_DOES_MORE.match, value["argv"][1:]))
        return None if own or looks else "does more than look or change files"
    if kind == "is given":
        named, given = value
        plain = isinstance(given, bool | int) or given in (None, {}) or named in _SAID
        plain = plain or (named, given) == ("isinput", "false")
        harmless = not any(one == "runs" for one, _ in before)
        return None if plain or harmless else "is given what nobody knows"
    return None if kind in ("looks for", "does", "runs on") else "neither looks nor changes a file"


def _looks(claim: Claim, effect: Effect, before: list[Effect], cwd: str) -> str | None:
    kind, value = effect
    if kind in _FILES:
        seen = kind in ("reads", "lists") and lies_below(value, claim.folder)
        return None if seen else f"does more than look below {claim.folder}"
    return _work(claim, effect, before, cwd)


def _pages(claim: Claim, effect: Effect, before: list[Effect], cwd: str) -> str | None:
    """Judge a page that was fetched: its address begins with the site's, the rest is a question."""
    kind, value = effect
    if kind == "does" and {"url"} <= {folded(one) for one in value} <= {"url", "prompt"}:
        kind, value = "sends out", ["url", value["url"]]
    if kind not in ("sends out", "is given"):
        return "no reading of a page"
    name, said = value
    if name != "url":
        asked = isinstance(said, str) and folded(name) == "prompt"
        how = isinstance(said, bool | int | float) and folded(name) in (
            "maxlength",
            "startindex",
            "raw",
        )
        return None if asked or how else f"{name} is no page"
    begins = f"https://{claim.site}/"
    return None if isinstance(said, str) and f"{said}/".startswith(begins) else f"not of {begins}"


def _there(claim: Claim, effect: Effect, before: list[Effect], cwd: str) -> str | None:
    """Judge what was read of the same place: nothing that is fixed differs."""
    kind, value = effect
    same = {folded(name) for name in claim.fixed}
    if kind in _GIVEN:
        return "from elsewhere" if folded(value[0]) in same else None
    done = [one for deed, one in before if deed == "does"]
    read = kind == "does" and all(not (_differs_in(value, one, claim) & same) for one in done)
    return None if read else "no reading there"


_RULES = {
    "looks": _looks, "pages": _pages, "there": _there,
    "command": _command, "folder": _folder, "text": _text, "tool": _tool, "edits": _edits,
    "work": _work, "scripts": _work,
}  # fmt: skip
