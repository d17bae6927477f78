"""The sample policies as a user takes them: `gateway apply`, and then an agent asks."""

from __future__ import annotations

import pytest

from tests.cli.shell import Shell
from tests.frame.tree import ROOT

SAMPLES = ROOT / "deploy" / "policies"
APPROVED, DENIED, EXPIRED = 0, 1, 3
ASKED = {
    "development": ("git log --oneline", APPROVED, "no person was asked"),
    "production": ("git push --force", DENIED, "no person was asked"),
    "high-security": ("ls", EXPIRED, "nobody answered"),
    "ci": ("make deploy", DENIED, "no person was asked"),
    "custom-timeout": ("ls", EXPIRED, "nobody answered"),
}


@pytest.mark.timeout(120)
def test_each_sample_is_applied_and_decides(up: Shell) -> None:
    """All five, one after the other, on one gateway; what asks people waits for them."""
    assert set(ASKED) == {path.stem for path in SAMPLES.glob("*.toml")}
    for name, (command, code, says) in ASKED.items():
        if name != "development":  # its people have no token yet, or there are none
            assert "nobody could approve" in up.run("apply", str(SAMPLES / f"{name}.toml"), code=2)
        assert "active" in up.run("apply", str(SAMPLES / f"{name}.toml"), "--yes")
        patience = "0.3" if code == EXPIRED else "60"
        said = up.run("ask", "shell", "--timeout", patience, "--", *command.split(), code=code)
        assert says in said, (name, said)
