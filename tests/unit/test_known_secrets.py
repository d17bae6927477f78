"""Secrets that only their place tells, in texts that are made from a request."""

from __future__ import annotations

import pytest

from gateway.cards.summary import notice_of, plain_summary, summarize
from gateway.domain.redaction import hide_in, hide_known, list_known
from gateway.models import Kind, new_id
from gateway.policy.grants.offers import offers
from gateway.policy.guardrails import find_dangers
from tests.unit.test_cards import record

SECRET = "hunter2secret"


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        (f'names "{SECRET}": it may hold secrets', True),
        (f"the value {SECRET}, remembered other", True),
        ('names "hunter2se…": it may hold secrets', True),
        ('names "hunter2se"…: it may hold secrets', True),
        ("/srv/…er2secret", True),
        ('{"a": "hunter2secret\\n"}', True),
        ("it may hold secrets", False),
    ],
)
def test_a_known_secret_is_hidden_whole_and_cut(text: str, hidden: bool) -> None:
    """Also at both sides of the sign that something was left out."""
    said = hide_known(text, list_known([{"password": SECRET}]))
    assert ("er2se" not in said) and (("⟨secret of" in said) is hidden)


def test_a_word_that_is_also_in_the_clear_is_hidden_nowhere() -> None:
    """People read it anyway, and an agent could hide what it does by calling it a password."""
    arguments = {"command": "git push origin production2", "password": "production2"}
    one = record(ask={"id": new_id(), "arguments": arguments})
    assert one.secrets == ()
    assert "production2" in plain_summary(summarize(one))
    assert all("production2" in offer.words for offer in offers(one)[:1])


def test_words_of_ours_are_never_hidden() -> None:
    """A plain word counts only where a text quotes the request."""
    known = list_known([{"password": "outside"}])
    assert hide_known("changes what is outside its working folder", known).count("outside") == 1
    assert "outside" not in hide_known('changes "outside": it is the system\'s', known)


def test_a_path_in_an_address_with_a_password_is_still_a_finding() -> None:
    """Only a sign that says nothing but a secret is none."""
    command = "scp https://bot:hunter2pass@h.example/.ssh/id_rsa x; deploy --token my-secret-9"
    said = [one.words for one in find_dangers(record(ask={"arguments": {"command": command}}))]
    assert any("id_rsa" in one and "may hold secrets" in one for one in said)
    assert not [one for one in said if "hunter2pass" in one or "my-secret-9" in one]


def test_values_are_masked_by_name_and_by_what_is_known() -> None:
    """Members of both kinds, names of members, and texts in lists."""
    known = list_known([{"password": SECRET}])
    told = hide_in({"password": "other-value", SECRET: [f"x {SECRET}"], "n": 3}, known)
    assert SECRET not in str(told) and "other-value" not in str(told)
    assert told["n"] == 3


@pytest.mark.parametrize("quote", ["", "'"])
@pytest.mark.parametrize("between", ["\n", "\\n", "\\\\n"])
@pytest.mark.parametrize("before", ["echo ", "echo -e ", "A="])
def test_no_line_of_a_key_is_in_a_head_or_a_notification(
    before: str, between: str, quote: str
) -> None:
    """Also where each line is read as a command, and its last part as the name of a program."""
    body = ["MIIEvQ/ADANBgkqhkiG9w0BAQEFAASC", "Qx77AAaa1234bbCC/Zk39vQIBADANBgkqhkiG9w0B"]
    key = ["-----BEGIN RSA PRIVATE KEY-----", *body, "-----END RSA PRIVATE KEY-----"]
    command = f"{before}{quote}{between.join(key)}{quote} > key.pem"
    one = record(ask={"id": new_id(), "arguments": {"command": command}, "kind": Kind.COMMAND})
    said = f"{plain_summary(summarize(one))} {notice_of(one)}"
    parts = [part for line in body for part in line.split("/")]
    assert not [part for part in parts if part[:8] in said]
