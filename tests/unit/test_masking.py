"""Secrets that stand behind a name which tells of one: the whole of them is masked."""

from __future__ import annotations

import pytest

from gateway.masking import masked, shown

KEY = "MIIEvQIBADANBgkqhkiG9w0BAQEF"


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("private_key", f"-----BEGIN PRIVATE KEY-----\n{KEY}\n-----END PRIVATE KEY-----\n", KEY),
        ("private_key", f"-----BEGIN RSA PRIVATE KEY-----\\n{KEY}\\n-----END", KEY),
        ("access_token", "Bearer opaque0123456789", "opaque0123456789"),
        ("auth_token", "basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA=="),
        ("secret_url", "postgres://us:pw4word@host/db", "pw4word"),
        ("secret_url", "Postgres://us:pw4word@host/db", "pw4word"),
        ("password", "hunter2-hunter2", "hunter2-hunter2"),
    ],
)
def test_a_name_before_a_secret_does_not_hide_its_shape(name: str, value: str, secret: str) -> None:
    """As a member's name in the audit, and in one text with its value, as on cards."""
    kept = masked({name: value})[name]
    assert secret not in kept
    assert "⟨secret of" in kept
    for text in (f"{name}: {value}", f'{{"{name}": "{value}"}}', f"{name}={value}"):
        assert shown(text).masked == 1
        assert secret not in shown(text).text
