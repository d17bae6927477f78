"""The file that names the hooks."""

from pathlib import Path

import pytest

from gateway.policy.hooks import BadHooks, read_hooks


@pytest.mark.parametrize(
    "text",
    ["[hooks.x]", "[hooks.x]\ncommand = []", '[hooks.x]\ncommand = ["a"]\nintercept = ["y"]',
     '[hooks.x]\ncommand = ["a"]\ntimeout = 0', '[hooks.x]\ncommand = ["a"]\nunknown = 1', "[[["],
)  # fmt: skip
def test_a_bad_hooks_file_is_refused(tmp_path: Path, text: str) -> None:
    """The gateway does not start without the hooks that somebody meant to have."""
    path = tmp_path / "hooks.toml"
    path.write_text(text)
    with pytest.raises(BadHooks):
        read_hooks(path)
    with pytest.raises(BadHooks):
        read_hooks(tmp_path / "missing.toml")


def test_hooks_are_asked_by_priority_then_name(tmp_path: Path) -> None:
    """Lower first, as in PicoClaw."""
    path = tmp_path / "hooks.toml"
    rows = (("b", 5), ("a", 5), ("c", 1))
    path.write_text("".join(f'[hooks.{n}]\ncommand = ["x"]\npriority = {p}\n' for n, p in rows))
    assert list(read_hooks(path)) == ["c", "a", "b"]
