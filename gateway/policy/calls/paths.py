"""Compare paths by their components, find delicate places, and read URLs and their hosts.

The gateway cannot see the agent's disk, and so cannot follow links. A client that resolves links
sends the real paths as the keys of `Context.files`. The decision then also fixes the content of
these files, and all of them must be in the folder too.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase, translate
from itertools import islice, pairwise
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from gateway.domain.safe_text import make_visible
from gateway.policy.calls.code_effects import named_in_patches
from gateway.wire.roles import Role

MAX_PATH = 4096
_FOLDERS_OF_HOMES = frozenset({"home", "users"})
_DEPTH_OF_HOME = 2
_LONGEST_NAME = 255  # characters of a file's name

# In Windows, `~1` abbreviates a long name, and a colon names a stream or a drive.
_DOUBTFUL = re.compile(r"[\x00-\x1f\x7f\\:*?\"<>|$`]|~[0-9]")
_HOMES = ("~", "$HOME", "${HOME}")
_EXPANDED = re.compile(r"[*?\[{$`]")
_DRIVE = re.compile(r"\A[A-Za-z]:(?=/)")
# Without these, a path consists of plain names.
_ODD = re.compile(r"\A\Z|//|/\Z|(?:\A|/)[. ]|[. ](?:/|\Z)")
_SECRET_FOLDERS = frozenset(
    {".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".gcloud", ".password-store", ".vault",
     "gcloud", ".secrets"}
)  # fmt: skip
_PROGRAM = "gcloud"  # its folder has the same name


def _compile(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))


def _any_of(*patterns: re.Pattern[str]) -> re.Pattern[str]:
    return re.compile("|".join(one.pattern for one in patterns))


_SECRET_NAMES = _compile(
    "*.tfvars", "*.p8", "netrc", "htpasswd", "pip.conf",
    ".env*", "*.env", "env.prod*", "env.dev*", "env.stag*", "env.local", "env.test", ".netrc",
    "_netrc", ".pgpass", ".my.cnf", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd",
    ".vault-token", ".dockercfg", ".s3cfg", ".boto", "id_rsa*", "id_dsa*", "id_ecdsa*",
    "id_ed25519*", "ssh_host_*", "*.pem", "*.key", "*.ppk", "*.p12", "*.pfx", "*.jks", "*.kdbx",
    "*.kubeconfig",
    "*.keystore", "*.ovpn", "credentials", "credentials.*", "secret.*", "secrets.*", "secrets",
    "shadow", "gshadow", "sudoers", "environ", "*_history", "service-account*.json", "*.tfstate",
    "*.secret", "*.secrets", "*.token", "*.creds", "*.passwd", "key[34].db", "logins.json",
)  # fmt: skip
# Folders of secrets, unless a file in them is source code.
_NAMED_SECRET = frozenset({"secrets", "credentials"})
# A folder and a name that together mean a secret.
_SECRET_PAIRS = frozenset({("gh", "hosts.yml"), (".m2", "settings.xml")})
_HARMLESS_NAMES = _compile("*.example", "*.sample", "*.template", "*.dist", "*.pub")
# Words that mean a secret in a file's name, unless it is source code or prose.
_SECRET_WORDS = frozenset(
    {"secret", "secrets", "token", "tokens", "password", "passwords", "passwd", "credential",
     "credentials", "wallet", "kubeconfig", "cookies", "apikey", "apikeys", "cred", "creds",
     "passphrase", "passphrases", "privkey", "privatekey", "secretkey", "accesskey", "accesskeys"}
)  # fmt: skip
# Pairs of adjacent words with the same meaning.
_SECRET_TWO_WORDS = frozenset(
    {(first, last) for first in ("access", "api", "deploy", "encryption", "private", "signing")
     for last in ("key", "keys")} | {("service", "account"), ("service", "accounts")}
)  # fmt: skip
# Words with the same meaning only if the file's ending means data.
_SECRET_DATA_WORDS = frozenset({"auth", "private"})
_DATA_ENDINGS = frozenset(
    {"bak", "bin", "cfg", "conf", "csv", "dat", "db", "der", "enc", "gpg", "ini", "json", "old",
     "properties", "sqlite", "toml", "tsv", "txt", "xml", "yaml", "yml"}
)  # fmt: skip
_SOURCE_ENDINGS = frozenset(
    {"adoc", "c", "cc", "clj", "cpp", "cs", "css", "cxx", "dart", "ex", "exs", "go", "h", "hpp",
     "hs", "htm", "html", "java", "jpg", "js", "jsx", "kt", "lua", "m", "md", "mdx", "mjs", "ml",
     "php", "pl", "png", "proto", "py", "pyi", "rb", "rs", "rst", "scala", "scss", "sh", "sql",
     "svelte", "svg", "swift", "ts", "tsx", "vue"}
)  # fmt: skip
# Files here run later without approval: hooks, start-up files, settings of tools.
_RUNS_LATER_FOLDERS = frozenset(
    {".git", ".hg", ".svn", ".husky", ".githooks", ".vscode", ".idea", ".cursor", ".claude",
     ".codex", ".gemini", ".devcontainer", ".direnv", "autostart", "launchagents", "launchdaemons",
     "cron.d", "cron.hourly", "cron.daily", "cron.weekly", "cron.monthly", "profile.d", "init.d",
     "sudoers.d"}
)  # fmt: skip
_RUNS_LATER_NAMES = _compile(
    ".bashrc", ".bash_*", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout",
    ".kshrc", ".cshrc", ".inputrc", ".vimrc", ".gdbinit", ".tmux.conf", ".gitconfig", ".gitmodules",
    ".gitattributes", ".mcp.json", "mcp.json", "mcp_config.json", "crontab", "authorized_keys",
    "sitecustomize.py",
    "usercustomize.py", "*.pth",
)  # fmt: skip
# Names with a leading dot that are harmless; all others require approval.
_ORDINARY_DOT_NAMES = _compile(
    ".gitignore", ".gitkeep", ".keep", ".mailmap", ".git-blame-ignore-revs", ".editorconfig",
    ".dockerignore", ".npmignore", ".prettierignore", ".eslintignore", ".stylelintignore",
    ".helmignore", ".gcloudignore", ".vercelignore", ".ignore", ".rgignore", ".hgignore",
    ".github", ".circleci", ".gitlab", ".next", ".nuxt", ".output", ".svelte-kit", ".angular",
    ".parcel-cache", ".turbo", ".cache", ".pytest_cache", ".mypy_cache", ".ruff_cache",
    ".hypothesis",
    ".ipynb_checkpoints", ".coverage", ".coveragerc", ".nyc_output", ".tox", ".nox", ".venv",
    ".bin", ".yarn", ".pnpm", ".pnpm-store", ".eggs", ".mvn", ".terraform",
    ".terraform.lock.hcl", ".build", ".dart_tool", ".storybook", ".changeset", ".well-known",
    ".worktrees", ".nojekyll", ".ds_store", ".browserslistrc", ".nvmrc", ".node-version",
    ".python-version", ".ruby-version", ".tool-versions", ".java-version", ".go-version",
    ".prettierrc*", ".eslintrc*", ".stylelintrc*", ".babelrc*", ".swcrc", ".markdownlint*",
    ".yamllint*", ".pylintrc", ".flake8", ".isort.cfg", ".style.yapf", ".rubocop.yml", ".rspec",
    ".clang-format", ".clang-tidy", ".clangd", ".rustfmt.toml", ".golangci.y*ml", ".hadolint.yaml",
    ".shellcheckrc", ".commitlintrc*", ".lintstagedrc*", ".jshintrc", ".luacheckrc",
    ".gitlab-ci.yml", ".travis.yml", ".pre-commit-config.yaml", ".readthedocs.y*ml",
    ".codecov.yml", ".goreleaser.y*ml", ".swiftlint.yml", ".size-limit.json", ".nycrc*",
    ".mocharc*", ".releaserc*", ".cargo", ".cursorrules", ".windsurfrules", ".clinerules",
    ".cursorignore", ".aiderignore", ".windsurf", ".roo", ".roomodes", ".kiro", ".amazonq",
)  # fmt: skip
# Places that may be read, but files there run later, or instruct an agent.
_STEERING_FOLDERS = frozenset(
    {".circleci", ".windsurf", ".roo", ".kiro", ".amazonq", ".clinerules", ".cargo", ".mvn",
     ".storybook"}
)  # fmt: skip
_STEERING_NAMES = _compile(
    "opencode.json*", "gptme.toml", "lefthook.y*ml", "claude_desktop_config.json",
    "cline_mcp_settings.json", "skill.md", "agent.md", "qwen.md", "warp.md", "jenkinsfile",
    "azure-pipelines.yml", "devcontainer.json", "*.desktop",
    "claude.md", "claude.local.md", "agents.md", "agents.override.md", "gemini.md",
    "copilot-instructions.md", ".cursorrules", ".windsurfrules", ".clinerules", ".roomodes",
    "*.code-workspace", ".gitlab-ci.yml", ".travis.yml", ".pre-commit-config.yaml",
)  # fmt: skip
_STEERING_PAIRS = frozenset(
    {(".github", "workflows"), (".github", "actions"), (".config", "git"), ("systemd", "user"),
     ("systemd", "system")}
)  # fmt: skip
_INSTALLED_FOLDERS = frozenset(
    {"node_modules", "site-packages", "dist-packages", "venv", ".venv", ".tox", ".nox", "bin",
     "sbin", ".bin", ".yarn", ".pnpm", ".gradle", ".terraform"}
)  # fmt: skip
# Git hooks, which run by name in any folder, and units, which run by their endings.
_RUN_BY_NAME = _compile(
    "head", "applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit",
    "prepare-commit-msg", "commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge",
    "pre-push", "pre-receive", "post-receive", "post-update", "reference-transaction",
    "push-to-checkout", "pre-auto-gc", "post-rewrite", "sendemail-validate", "fsmonitor-watchman",
    "*.service", "*.timer", "*.socket", ".eslintrc*.?js", ".eslintrc.js", ".prettierrc*.?js",
    ".prettierrc.js", ".babelrc*.?js", ".babelrc.js", ".stylelintrc*.?js", ".stylelintrc.js",
    ".lintstagedrc*", ".mocharc*", ".releaserc*", ".commitlintrc*.?s", ".pylintrc",
)  # fmt: skip
# Files that build, test and package tools run by name.
_EXECUTED_NAMES = _compile(
    "makefile*", "gnumakefile", "*.mk", "cmakelists.txt", "*.cmake", "meson.build", "configure",
    "configure.ac", "wscript", "build", "build.bazel", "workspace", "workspace.bazel",
    "module.bazel", "*.bzl", "justfile", "taskfile.y*ml", "rakefile", "*.rake", "gemfile",
    "*.gemspec", "brewfile", "podfile", "fastfile", "dangerfile", "guardfile", "capfile",
    "procfile*", "vagrantfile", "tiltfile", "snakefile", "sconstruct", "sconscript",
    "package.json", "composer.json", "deno.json*", "bunfig.toml", "*.config.?js", "*.config.js",
    "*.config.ts", "*.config.?ts", "*.conf.js", "gruntfile*", "gulpfile*", "jakefile*",
    "conftest.py", "setup.py", "setup.cfg", "pyproject.toml", "tox.ini", "pytest.ini", "noxfile.py",
    "tasks.py", "fabfile.py", "dodo.py", "hatch_build.py", "build.rs", "cargo.toml", "go.mod",
    "magefile.go", "pom.xml", "*.gradle", "*.gradle.kts", "gradle.properties", "gradlew*", "mvnw*",
    "build.sbt", "build.sc", "project.clj", "mix.exs", "rebar.config", "stack.yaml",
    "*.cabal", "cabal.project", "dune-project", "*.csproj", "*.fsproj", "*.vcxproj",
    "directory.build.*", "*.nuspec", "package.swift", "dockerfile*", "containerfile*",
    "*.sh", "*.bash", "*.zsh", "*.fish", "*.ps1", "*.bat", "*.cmd", "*.command",
    "docker-compose*.y*ml", "compose*.y*ml", "skaffold.yaml", "chart.yaml", "turbo.json", "nx.json",
    "lerna.json", "dangerfile.*", "binding.gyp", "build.zig", "build.xml", "ivy.xml",
    "*.toml", "*.ninja", "*.nix", "*.targets", "*.props", "*.gradle*", "*.lock", "gradle-wrapper.*",
    "mypy.ini", "action.y*ml", "*pipelines.yml", "taskfile.*", "artisan", "global.json", "pipfile",
    "package-lock.json", "npm-shrinkwrap.json", "pnpm-*.yaml", "go.sum", "go.work", "nodemon.json",
    "angular.json", "project.json", "jest.config.*", "babel.config.*", "rust-toolchain*",
)  # fmt: skip
# Files with a leading dot are settings of tools, except these.
_INERT_DOT_NAMES = _compile(
    ".*ignore", ".gitkeep", ".keep", ".mailmap", ".git-blame-ignore-revs", ".editorconfig",
    ".nojekyll", ".well-known",
)  # fmt: skip
_WORD = re.compile(r"[a-z]+")
# All of the above, for a quick check that none of it applies.
_NOTED_PARTS = (
    _SECRET_FOLDERS | _NAMED_SECRET | _RUNS_LATER_FOLDERS | _STEERING_FOLDERS | _INSTALLED_FOLDERS
    | {part for pair in _SECRET_PAIRS | _STEERING_PAIRS for part in pair} | {"etc", "hooks"}
)  # fmt: skip
_NOTED_NAMES = _any_of(_SECRET_NAMES, _RUNS_LATER_NAMES, _STEERING_NAMES, _RUN_BY_NAME)
_NOTED_WORDS = re.compile("|".join((*_SECRET_WORDS, *_SECRET_DATA_WORDS, "key", "account")))
# Tools keep working copies here, which are ordinary places to work.
_WORKING_COPIES = "worktrees"
# Folders of the system, which a grant for editing never means.
_SYSTEM_PLACES = frozenset(
    {("bin",), ("boot",), ("etc",), ("lib",), ("lib32",), ("lib64",), ("library",), ("sbin",),
     ("sys",), ("system",), ("usr",), ("var", "spool"), ("private", "etc")}
)  # fmt: skip
# Further folders that the system reads or runs, wherever the agent's folder is.
_READ_BY_SYSTEM = _SYSTEM_PLACES | {
    ("proc",), ("program files",), ("program files (x86)",), ("programdata",), ("windows",),
}  # fmt: skip
_WORKPLACE_OF_CONTAINERS = ("usr", "src")
# Their content depends on the process that looks: /proc/self/cwd, /dev/fd/3.
_DEPENDING = (("proc",), ("dev",))


def components(path: str, cwd: str | None = None) -> tuple[str, ...] | None:
    """Return the components of the absolute path, or None if programs may interpret it differently.

    `..` is never resolved, because after a link it leads to a different folder.
    """
    if not path.startswith("/"):
        if path.startswith("~") or cwd is None or not cwd.startswith("/"):
            return None
        path = f"{cwd}/{path}"
    return _parts(path)


def below(path: str) -> bool:
    """Return whether a relative path stays below the folder that it starts from."""
    return not path.startswith("/") and _parts(path) is not None


def within(path: str, folder: str, cwd: str | None = None) -> bool:
    """Return whether a path is the folder itself or in it, compared by components."""
    outer, inner = components(folder), components(path, cwd)
    return outer is not None and inner is not None and inner[: len(outer)] == outer


def lies_outside(word: str, home: tuple[str, ...], cwd: str | None) -> bool:
    """Return whether a shell word names a path outside a folder, judged only by its text.

    Use it only for findings, because it follows no links and expands nothing.
    """
    if word.startswith(_HOMES):
        return True
    sure, *more = _EXPANDED.split(word, maxsplit=1)
    if more:
        if ".." in word.split("/"):
            return True
        sure = sure.rpartition("/")[0]  # what follows is anything
    if not sure or (cwd is None and not sure.startswith("/")):
        return False
    path = posixpath.normpath(posixpath.join(cwd or "/", sure))
    return tuple(filter(None, path.split("/")))[: len(home)] != home


def is_root(folder: str | None) -> bool:
    """Return whether a folder is the root of the disk."""
    return folder is not None and components(folder) == ()


def is_everything(folder: str) -> bool:
    """Return whether a folder is a whole disk, or a person's whole home folder."""
    parts = components(folder)
    if parts is None:  # a path of Windows or a shell
        parts = tuple(filter(None, folder.replace("\\", "/").split("/")))
        if not parts or parts[0][1:] != ":":
            return not parts or folder.rstrip("/\\") == "~"
        parts = parts[1:]
    small = tuple(part.casefold() for part in parts)
    return (
        not small
        or small == ("root",)
        or (len(small) == _DEPTH_OF_HOME and small[0] in _FOLDERS_OF_HOMES)
    )


def is_systems(path: str, cwd: str) -> bool:
    """Return whether a path is in the root of the disk or in a system folder."""
    parts = tuple(part.casefold() for part in components(path, cwd) or ())
    if parts[:2] == _WORKPLACE_OF_CONTAINERS:
        return False
    return not parts[1:] or bool({parts[:1], parts[:2]} & _SYSTEM_PLACES)


def leads_away(word: str) -> bool:
    """Return whether a shell word names an absolute path, or a path in somebody's home folder."""
    return word.startswith(("/", *_HOMES))


def lies_with_system(path: str, home: tuple[str, ...] | None, cwd: str | None) -> bool:
    """Return whether a path, judged only by its text, is in a place that the system reads or runs,
    and not in `home`. Use it only for findings."""
    text = _DRIVE.sub("", path.replace("\\", "/"))
    if not text.startswith("/"):
        if cwd is None or text.startswith(_HOMES):
            return False
        text = f"{cwd}/{text}"
    parts = tuple(filter(None, posixpath.normpath(text).casefold().split("/")))
    if home and parts[: len(home)] == tuple(part.casefold() for part in home):
        return False
    known = bool({parts[:1], parts[:2]} & _READ_BY_SYSTEM)
    return known and parts[:2] != _WORKPLACE_OF_CONTAINERS


def delicate(path: str, cwd: str | None = None, *, written: bool = True) -> str | None:
    """Return why a path always requires approval (it may contain secrets, or run later), or None.

    A name with a leading dot is delicate unless it is known to be ordinary. Without `written`,
    places that are delicate only to write do not count. Case is ignored, because some disks ignore
    it.
    """
    parts = _parts_of(path, cwd)
    if _is_unknown(parts):
        return None
    why = _known_delicate(parts)
    if why is not None:
        return why
    if any(part.startswith(".") and not _is_ordinary(part) for part in parts):
        return "its name begins with a dot"
    if written and (_steers(parts) or _runs_as_installed(parts)):
        return "its content runs later"
    return None


def is_executed(path: str) -> bool:
    """Return whether commands run files with this name, such as build files."""
    name = (_parts_of(path, None) or [""])[-1]
    settings = name.startswith(".") and not _matches_name(name, _INERT_DOT_NAMES)
    return settings or _matches_name(name, _EXECUTED_NAMES)


def delicate_word(word: str, cwd: str | None = None, *, written: bool = True) -> str | None:
    """Return why a word of a text requires approval, judged by the names in it, or None. The word
    need not be a path.

    An option's name does not count, nor does the query of a URL.
    """
    if word[:1] == "-" and "/" not in word:
        word = "" if word[:2] == "--" else word[2:]
    elif "://" in word:
        word = word.partition("?")[0]
    parts = _parts_of(word, cwd)
    if parts[-1:] == [_PROGRAM] and parts[-2:-1] in ([], ["bin"]):
        return None
    why = _known_delicate(parts)
    return why or ("its content runs later" if written and _steers(parts) else None)


def _parts_of(path: str, cwd: str | None) -> list[str]:
    whole = path if cwd is None or path.startswith("/") else f"{cwd}/{path}"
    parts = whole.replace("\\", "/").casefold().split("/")
    return _outside_copies([part for part in parts if part.strip(".")])


def _is_unknown(parts: list[str]) -> bool:
    """Return, after a quick check, whether no rule of this module can apply to these names."""
    if not parts:
        return True
    if not _NOTED_PARTS.isdisjoint(parts) or "." in [part[0] for part in parts]:
        return False
    name = parts[-1]
    return not _matches_name(name, _NOTED_NAMES) and not _tells_of_secrets(name)


def _known_delicate(parts: list[str]) -> str | None:
    if not parts:
        return None
    if _is_secret(parts):
        return "it may hold secrets"
    if _RUNS_LATER_FOLDERS & set(parts) or _matches_name(parts[-1], _RUNS_LATER_NAMES):
        return "its content runs later"
    return None


def _is_secret(parts: list[str]) -> bool:
    *folders, name = parts
    if _SECRET_FOLDERS & set(parts) or _holds_pair(parts, _SECRET_PAIRS):
        return True
    if "etc" in folders and name in ("passwd", "shadow"):
        return True
    if _NAMED_SECRET & set(folders) and _suffix_of(name) not in _SOURCE_ENDINGS:
        return True
    secret = _matches_name(name, _SECRET_NAMES) or _tells_of_secrets(name)
    return secret and not _matches_name(name, _HARMLESS_NAMES)


def _tells_of_secrets(name: str) -> bool:
    if not _NOTED_WORDS.search(name):
        return False
    each = _WORD.findall(name)
    ending, words = _suffix_of(name), set(each)
    if ending in _SOURCE_ENDINGS:
        return False
    told = words & _SECRET_WORDS or not _SECRET_TWO_WORDS.isdisjoint(pairwise(each))
    if told and (ending in _DATA_ENDINGS or not ending):
        return True
    return bool(words & _SECRET_DATA_WORDS) and ending in _DATA_ENDINGS


def _suffix_of(name: str) -> str:
    return name.rpartition(".")[2] if "." in name else ""


def _is_ordinary(name: str) -> bool:
    return _matches_name(name, _ORDINARY_DOT_NAMES) or _matches_name(name, _HARMLESS_NAMES)


def _steers(parts: list[str]) -> bool:
    """Return whether a file with this path controls an agent, a build, or a developer's tool."""
    if not parts:
        return False
    return (
        bool(_STEERING_FOLDERS & set(parts))
        or _holds_pair(parts, _STEERING_PAIRS)
        or _matches_name(parts[-1], _STEERING_NAMES)
    )


def _runs_as_installed(parts: list[str]) -> bool:
    """Return whether a file with this path runs when somebody calls an installed command."""
    if not parts:
        return False
    hook = parts[-2:] == ["hooks", "update"]
    return hook or bool(_INSTALLED_FOLDERS & set(parts)) or _matches_name(parts[-1], _RUN_BY_NAME)


def _holds_pair(parts: list[str], pairs: frozenset[tuple[str, str]]) -> bool:
    return not pairs.isdisjoint(pairwise(parts))


def _outside_copies(parts: list[str]) -> list[str]:
    """Return the parts without those that only lead to a tool's working copy of a repository."""
    if _WORKING_COPIES not in parts:
        return parts
    for at, part in enumerate(parts[1:-1], 1):
        before = parts[at - 1]
        if part == _WORKING_COPIES and before in _RUNS_LATER_FOLDERS and before != ".git":
            return parts[: at - 1] + parts[at + 1 :]
    return parts


def _matches_name(name: str, patterns: re.Pattern[str]) -> bool:
    return len(name) <= _LONGEST_NAME and patterns.match(name) is not None


def _parts(path: str) -> tuple[str, ...] | None:
    if len(path) > MAX_PATH or _DOUBTFUL.search(path) or path.startswith("~"):
        return None
    if path.startswith("//") and not path.startswith("///"):
        return None  # some systems read a host's name here
    if not path.isascii():
        # Two spellings of a letter may be one file or two, depending on the disk.
        seen = make_visible(path)
        if seen.hidden or seen.mixed_script or not unicodedata.is_normalized("NFC", path):
            return None
    parts = tuple(path.removeprefix("/").split("/"))
    if _ODD.search(path):
        parts = tuple(part for part in parts if part not in ("", "."))
        if any(part[-1] in ". " or part[0] == " " for part in parts if part != "..."):
            return None  # `..` too
    return None if path.startswith("/") and parts[:1] in _DEPENDING else parts


# The URLs that a call names, and their hosts.

_FOUND = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s\"'<>()`]{1,2048}")
MOST_URLS = 64
_USUAL_PORTS = frozenset({None, 80, 443})
_LITERAL = re.compile(r"[0-9.]+|0x[0-9a-f.x]+|.*:.*")
_PRIVATE = re.compile(r"localhost|[^.]+|.*\.(?:local|internal|lan|localhost|home|corp|intranet)")


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlUse:
    """One URL. `uncertainty` is the reason why programs may disagree on where it leads, or None.

    `looks` is true if it may not be a URL. It is then only a part of a text, or its argument's name
    does not mean a URL.
    """

    text: str
    scheme: str
    host: str
    place: str
    uncertainty: str | None = None
    looks: bool = False


def use_url(text: str, place: str, *, looks: bool = False) -> UrlUse:
    """Parse a URL; record why it is uncertain."""
    try:
        parts = urlsplit(text)
        scheme, host, port = parts.scheme.lower(), (parts.hostname or "").rstrip("."), parts.port
        named = parts.username is not None or parts.password is not None
    except ValueError:
        return UrlUse(text=text, scheme="", host="", place=place, uncertainty="it is not a URL",
                      looks=looks)  # fmt: skip
    uncertainty = _find_uncertainty(text, host, named, port)
    return UrlUse(
        text=text, scheme=scheme, host=host, place=place, uncertainty=uncertainty, looks=looks
    )


def find_urls(text: str, place: str) -> Iterator[UrlUse]:
    """Yield the URLs in a text; stop after one more than the limit."""
    for found in islice(_FOUND.finditer(text), MOST_URLS + 1):
        yield use_url(found.group(), place, looks=True)


def _find_uncertainty(text: str, host: str, named: bool, port: int | None) -> str | None:
    if not host:
        return "it names no host"
    if named:
        return "it names a user beside the host"
    if "\\" in text or not (text.isascii() and text.isprintable()) or " " in text or "%" in host:
        return "programs may read it as another URL"
    if port not in _USUAL_PORTS:
        return "it names an unusual port"
    if _LITERAL.fullmatch(host):
        return "its host is a number"
    return "its host has a private name" if _PRIVATE.fullmatch(host) else None


# The paths that a call touches, and delicate places in any spelling.

_LOCAL_FILE = ("file:///", "file://localhost/")


class PathEffect(StrEnum):
    """The effect on a path, the worst first."""

    DELETE = "delete"
    UNKNOWN = "unknown"
    WRITE = "write"
    READ = "read"
    LIST = "list"


EFFECTS = {
    Role.READ: PathEffect.READ,
    Role.WRITE: PathEffect.WRITE,
    Role.DELETE: PathEffect.DELETE,
    Role.DESTINATION: PathEffect.WRITE,
    Role.FOLDER: PathEffect.LIST,
    Role.PATH: PathEffect.UNKNOWN,
}


class PathUse(NamedTuple):
    """One path: its text as sent, the effect on it, and its place in the call.

    `parts` are the components of the absolute path, or None if programs may interpret it
    differently or the base is unknown. `delicate` is why it always requires approval, or None.
    `second` marks the target of a move, copy or link. If it only `looks` like a path, it may be
    some other string.
    """

    text: str
    effect: PathEffect
    parts: tuple[str, ...] | None
    delicate: str | None
    place: str
    second: bool = False
    looks: bool = False

    @property
    def absolute(self) -> str | None:
        """The absolute path, or None if unknown."""
        return None if self.parts is None else "/" + "/".join(self.parts)


def use_path(
    text: str, effect: PathEffect, base: str | None, place: str, *, second: bool = False,
    looks: bool = False,
) -> PathUse:  # fmt: skip
    """Return the use of a path, resolved from the base."""
    plain = plain_path(text)
    parts = components(plain, base) if plain else None
    return PathUse(text, effect, parts, _find_delicate(text, base), place, second, looks)


def plain_path(text: str) -> str | None:
    """Return the path that a string means to every program, or None if programs may disagree."""
    if len(text) > MAX_PATH or not text:
        return None
    text = _without_scheme(text)
    if text[:5].lower() == "file:":
        return None
    decoded = _decode(text)
    return text if decoded == text or decoded.split("/") == text.split("/") else None


def _find_delicate(text: str, base: str | None) -> str | None:
    if len(text) > MAX_PATH:
        return "it is too long to be read"
    text = _without_scheme(text)
    found = delicate(text, base)
    decoded = _decode(text)
    return found or (delicate(decoded, base) if decoded != text else None)


def _without_scheme(text: str) -> str:
    if text.startswith("file:"):
        for start in _LOCAL_FILE:
            if text.startswith(start):
                text = text[len(start) - 1 :]
    return text


def _decode(text: str) -> str:
    decoded = unquote(text) if "%" in text else text
    return decoded if decoded.isascii() else unicodedata.normalize("NFKC", decoded)


# Find delicate places in text, in any spelling: quoted, escaped, encoded, in a patch.
#
# It may find too much, which only requires an approval; it parses nothing and resolves nothing.

_BREAKS = re.compile(r"[\s;|&<>(){}=,@]+")
_QUOTES = re.compile(r"[\"'`\\]")
_GLOB = re.compile(r"[*?\[]")
_BRACES = re.compile(r"\{[^\s{}]*(?:,|\.\.)[^\s{}]*\}")
# Examples of each kind of delicate place, to compare wildcards with.
_EXAMPLES = (
    ".env", ".env.local", ".envrc", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".ssh",
    ".aws", ".gnupg", ".kube", ".docker", ".git", ".bashrc", ".profile", ".zshrc", "id_rsa",
    "id_ed25519", "id_ecdsa", "server.pem", "server.key", "credentials", "secrets", "secrets.yaml",
    "shadow", "sudoers", "terraform.tfstate", "authorized_keys", ".bash_history",
    "env.production", "kubeconfig", "ssh_host_rsa_key", "deploy.ppk", ".dockercfg", ".s3cfg",
    "environ", "passwd",
)  # fmt: skip
_FEWEST_LETTERS = 4


def names_delicate(
    text: str, cwd: str | None, *, data: bool, globs: bool, written: bool = True
) -> bool:
    """Return whether a text names a delicate place in any word and any spelling.

    With `data`, the text is only stored. It then counts only if all of it is a path, or if a patch
    header names a path. With `globs`, wildcards that may match a delicate path count too. `written`
    is as in `delicate`.
    """
    if any(could_be_delicate(path, cwd) for path in named_in_patches(text)):
        return True
    if data:
        return any(delicate_word(path, cwd) for path in _spellings(text))
    if any(_names_place(word, cwd, written=written) for word in _words(text) if word):
        return True
    return globs and any(map(_may_stand_for_delicate, text.split()))


def could_be_delicate(path: str, cwd: str | None, *, written: bool = True) -> bool:
    """Return whether a path is delicate as it is, or after decoding."""
    decoded = _path_spelling_decode(path)
    if decoded != path and decoded.split("/") != path.split("/") and _is_path(path):
        return True
    return any(delicate(one, cwd, written=written) is not None for one in _spellings(path))


def _spellings(path: str) -> tuple[str, ...]:
    return path, _QUOTES.sub("", path), _path_spelling_decode(path)


def _path_spelling_decode(path: str) -> str:
    return unicodedata.normalize("NFKC", unquote(path))


def _words(text: str) -> Iterator[str]:
    """Yield the words of a text in three ways: with quotes and escapes as separators, removed, and
    decoded."""
    spelled = {text.replace("\\", "/"), _QUOTES.sub("", text), _QUOTES.sub(" ", text)}
    if "%" in text:
        spelled.add(unquote(text))
    if not text.isascii():
        spelled.add(unicodedata.normalize("NFKC", text))
    for one in spelled:
        for word in _BREAKS.split(one):
            yield word
            yield from word.split(":") if ":" in word else ()


def _names_place(word: str, cwd: str | None, *, written: bool) -> bool:
    """Return whether a word is delicate by name, or is a path with an unknown name that begins with
    a dot."""
    if delicate_word(word, cwd, written=written) is not None:
        return True
    begins = re.match(r"[~/\\]|\.[\w-]", word) is not None and "/" in word
    return begins and delicate(word, written=False) is not None


def _is_path(word: str) -> bool:
    return "/" in word or "." in word


def stands_for_secret(word: str) -> bool:
    """Return whether a wildcard very likely matches a secret file: `shad?w`, but not `*`."""
    name = word.rstrip("/").rpartition("/")[2]
    if not _GLOB.search(name) or sum(map(str.isalnum, name)) < _FEWEST_LETTERS:
        return False
    told = (one for one in _EXAMPLES if "." not in one[1:])
    return any(fnmatchcase(one, name) and delicate_word(one, written=False) for one in told)


def _may_stand_for_delicate(word: str) -> bool:
    pattern = _BRACES.sub("*", word)
    if not _GLOB.search(pattern):
        return False
    return any(
        fnmatchcase(example, part)
        for part in _QUOTES.sub("", pattern).split("/")
        if _GLOB.search(part)
        for example in _EXAMPLES
        if not (part[0] in "*?[" and example.startswith("."))  # shells do not match these
    )
