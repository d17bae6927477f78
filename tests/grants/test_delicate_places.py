"""Delicate places are known by construction: what begins with a dot asks unless it is ordinary."""

from __future__ import annotations

import random
import string

import pytest

from gateway.models import Kind
from gateway.policy.calls.paths import delicate, names_delicate
from tests.grants.making import allowed, asked, remembered

SECRET = [
    ".env", ".env~", ".env-prod", ".env.local", ".envrc", "env.production", "env.local",
    "secrets/prod.yaml", "secrets/db", "credentials/x.json", ".secrets/x", "kubeconfig",
    "admin.kubeconfig", "kubeconfig.yaml", "ssh_host_ed25519_key", "ssh_host_rsa_key", "deploy.ppk",
    ".dockercfg", ".s3cfg", ".config/gcloud/credentials.db", "~/.config/gcloud", "gcloud/legacy",
    "gh/hosts.yml", ".config/gh/hosts.yml", ".m2/settings.xml", "api_token", "token.json",
    "db-password.txt", "passwords.txt", "wallet.dat", "cookies.sqlite", "Cookies", "auth.json",
    "private.xml", "client_secret.json", "credentials.json", "ID_RSA", ".newtool/session",
    ".anything", "apikey", "api_key.txt", "creds.txt", "deploy/creds", "privkey", "api-keys.csv",
    "service_account.json", "access_keys.csv", "key4.db", "logins.json", "jwt.secret",
    "passphrase.txt", "passwords.csv", "private-key", "github.token",
    ".config/systemd/user/x.service", ".config/git/config", ".vimrc", ".gdbinit", ".tmux.conf",
    ".zlogout", ".git/hooks/x",
]  # fmt: skip
WRITTEN = [
    ".github/workflows/ci.yml", ".github/actions/x/action.yml", ".gitlab-ci.yml",
    ".pre-commit-config.yaml", ".cargo/config.toml", "CLAUDE.md", "docs/AGENTS.md", ".cursorrules",
    ".windsurf/rules/x.md", ".roo/rules.md", ".kiro/steering/x.md", ".amazonq/rules/x.md",
    "app.code-workspace", "node_modules/x/index.js", "lib/site-packages/x.py", "venv/bin/python",
    ".venv/bin/python", "bin/run", "hooks/pre-push", "hooks/update", "HEAD", "units/x.service",
    ".eslintrc.js", ".mvn/extensions.xml",
]  # fmt: skip
ORDINARY = [
    "Makefile", "package.json", "conftest.py", "setup.py", "src/auth/login.py", "src/auth",
    "tests/test_tokens.py", "src/tokenizer.c", "docs/authentication.md", "docs/secret-scanning.md",
    "src/private/impl.hpp", "config.json", "author.json", "src/password_reset.ts",
    ".github/ISSUE_TEMPLATE/bug.md", ".github/dependabot.yml", ".gitignore", ".editorconfig",
    ".dockerignore", ".next/build", ".cache/x", ".eslintrc.json", ".prettierrc", ".nvmrc",
    ".env.example", "config/.env.sample", "README.md", "go.mod", "a/.../b", "environment.py",
    "keys.py", "hooks/useState.ts", "update", "monkey.txt", "sort_key.txt", "account.json",
    "src/api_keys.ts", "/private/tmp/x/a.py", "tokens.css",
]  # fmt: skip


@pytest.mark.parametrize("path", SECRET)
def test_what_may_be_secret_asks_even_when_it_is_only_read(path: str) -> None:
    """In any folder, in any case of its letters, and by an absolute path."""
    for one in (path, f"a/{path}", f"/ws/{path}", path.upper()):
        assert delicate(one, written=False), one
        assert delicate(one), one


@pytest.mark.parametrize("path", WRITTEN)
def test_what_runs_or_steers_later_asks_when_it_is_written(path: str) -> None:
    """It may be read: agents look at their own rules and at the build all day."""
    for one in (path, f"a/{path}", f"/ws/{path}", path.upper()):
        assert delicate(one), one
        assert delicate(one, written=False) is None, one


@pytest.mark.parametrize("path", ORDINARY)
def test_ordinary_files_of_a_project_stay_ordinary(path: str) -> None:
    """A rule that asks about everything is turned off."""
    assert delicate(path) is None
    assert delicate(path, "/home/ann/auth-service") is None


def test_a_name_with_a_dot_that_nobody_knows_asks() -> None:
    """By construction: a thousand names that stand in no list, as a file and as a folder."""
    chance = random.Random(5)
    for _ in range(1000):
        name = "." + "".join(chance.choices(string.ascii_lowercase + "-_.", k=9)).strip(".") + "x"
        for path in (name, f"a/{name}", f"{name}/a.py", f"/ws/{name}/b/c"):
            assert delicate(path, written=False), path


@pytest.mark.parametrize("path", WRITTEN)
def test_a_remembered_folder_tells_reading_from_writing(path: str) -> None:
    """A tool whose name says that it reads goes through; one that writes, or does both, asks."""
    read = remembered(asked("read_file", arguments={"path": "/ws/a.txt"}))
    assert allowed([read], asked("read_file", arguments={"path": f"/ws/{path}"}))
    for tool, kind in (("write_file", Kind.FILE_CHANGE), ("read_file", Kind.FILE_CHANGE),
                       ("write_file", Kind.TOOL), ("open_file", Kind.TOOL)):  # fmt: skip
        write = remembered(asked(tool, kind=kind, arguments={"path": "/ws/a.txt"}))
        assert not allowed([write], asked(tool, kind=kind, arguments={"path": f"/ws/{path}"}))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("jq .version package.json", False),
        ("git diff HEAD", False),
        ("node_modules/.bin/jest src", False),
        ("/usr/bin/python3 a.py", False),
        ("cat ~/.newtool/session", True),
        ("cp x .newtool/config", True),
        ("tee CLAUDE.md", True),
        ("cp x .github/workflows/ci.yml", True),
        ("cat env.production", True),
        ("cat .env-prod", True),
    ],
)
def test_words_of_a_command_are_looked_at_by_name(text: str, found: bool) -> None:
    """A word may be no path: `.version` alone is a filter, `.newtool/config` is a place."""
    assert names_delicate(text, "/ws", data=False, globs=True) is found


def test_text_that_is_only_kept_is_no_path() -> None:
    """A rule of a style sheet begins with a dot and names no file."""
    assert not names_delicate(".box { color: red }", "/ws", data=True, globs=False)
    assert names_delicate(".env", "/ws", data=True, globs=False)
