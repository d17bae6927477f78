"""Secrets that stand behind a name which tells of one: the whole of them is masked."""

from __future__ import annotations

import pytest

from gateway.domain.redaction import mask, render_safe, start_of

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
    kept = mask({name: value})[name]
    assert secret not in kept
    assert "⟨secret of" in kept
    for text in (f"{name}: {value}", f'{{"{name}": "{value}"}}', f"{name}={value}"):
        assert render_safe(text).masked == 1
        assert secret not in render_safe(text).text


@pytest.mark.timeout(15)  # all of it would take a minute
def test_a_cut_looks_no_further_than_a_secret_reaches() -> None:
    """However long the words are, of which an agent's first 2 000 characters are kept."""
    assert start_of("x" * 60_000_000, 2000) == "x" * 2000


@pytest.mark.parametrize(
    ("before", "secret", "after"),
    [
        ("-----BEGIN PRIVATE KEY-----", "A" * 9999, "-----END"),
        ("", f"eyJ{'a' * 4000}.{'b' * 4000}.c", ""),
        (f"{'s' * 16}://{'u' * 99}:", "p" * 255, "@"),
        ("Bearer ", "t" * 20_000, ""),
    ],
)
def test_the_longest_secrets_are_not_cut(before: str, secret: str, after: str) -> None:
    """A cut anywhere within one leaves nothing of it."""
    begin = f"so: {before}"
    for most in (1, 100, len(secret) - 1):
        assert start_of(f"{begin}{secret}{after} and more", len(begin) + most) == begin
