"""The search that looks only where a secret can begin finds what the whole expression finds."""

from __future__ import annotations

import json

import pytest
from hypothesis import example
from hypothesis import strategies as st

from gateway.domain import redaction
from gateway.domain.secret_names import value_behind
from tests.fake_secrets import fake_secrets
from tests.sweeps import tried

_NOISE = r"""
-- - x- x-a- pass pwd PWD token Token_ key api_key apiKey access-key secret authorization: bearer
private_token _private-token: account_key= AccountKey= &sig= ?sig= eyJ ghp_ xoxb- sk-
:// @ a:b@ https:// .atlasv1. :AA 12345678:AA curl http mysql redis-cli docker login sshpass cookie:
hooks.slack.com/services/T/ discord.com/api/webhooks/1/ -----BEGIN #code= =" ': "auth":" \
MTAxMjM0NTY3ODkwMTIzNDU2 .abcdef. aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 0123456789abcdef
0123456789abcdef0123456789abcdef.Ab01Cd23Ef45Gh67 0123456789ABCDEFGHIJab==: Abc7Q~
Ab01Cd_ h.webhook.office.com/webhookb2/ hooks.slack.com/triggers/T/ => :=
"""
# Letters that an expression without case reads as s, k and i.
_READ_AS_OTHERS = "\u017fecret \u212aey pa\u017f\u017fword to\u212aen \u0130d \u0131d s\u0131g="
_PARTS = [
    *(one.text for one in fake_secrets("parts")),
    *_NOISE.split(),
    *_READ_AS_OTHERS.split(),
    *redaction._BEGINNINGS.split(),
    *redaction._SHORT_BEGINNINGS.split(),
    *redaction._SIGNS,
    *redaction._WORDS,
]
_TEXTS = st.lists(
    st.one_of(
        st.sampled_from(_PARTS),
        st.sampled_from(
            ["=", ": ", '": "', " ", "-", "_", "\n", "/", ".", "@", "x" * 20, "\u00e9"]
        ),
        st.text(max_size=12),
        st.from_regex(r"[A-Za-z0-9_-]{1,40}", fullmatch=True),
    ),
    max_size=14,
).map("".join)


def _plainly(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in redaction._SECRET.finditer(text)]


@tried(_TEXTS, few=100, many=600)
@example("\u0130" * 9 + "pa\u017f\u017fword: hunter2hunter2")
@example("-\u017fecret hunter2hunter2 \u212aeep")
def test_the_quick_search_finds_what_the_whole_expression_finds(text: str) -> None:
    """In texts that mix shapes, beginnings of shapes and noise."""
    assert [match.span() for match in redaction._find_shaped(text)] == _plainly(text)
    stretched = [redaction._in_stretches(text, *one) for one in redaction._STRETCHES]
    assert sorted(redaction._find_stretched(text)) == sorted(x for one in stretched for x in one)


@pytest.mark.parametrize("form", ["{}", "x{}", "-{}", '"{}"', "a_{}", "{}{}", "password={}"])
def test_the_quick_search_finds_every_kind(form: str) -> None:
    """Each kind of secret bare, in JSON, and behind signs that could hide where it begins."""
    for one in fake_secrets("quick"):
        text = form.replace("{}", one.text)
        for said in (text, json.dumps([text, text]), text.upper()):
            found = [match.span() for match in redaction._find_shaped(said)]
            assert found == _plainly(said), said


@tried(_TEXTS, _TEXTS, few=60, many=300)
@example("cookie", "sid=0123456789")
@example("Authorization", "Basic 0123456789abcdef")
@example("x-api-token", "0123456789abcdef")
def test_a_name_is_searched_with_its_value_where_it_matters(name: str, text: str) -> None:
    """A long value that its name does not concern is searched once, and alone."""
    long = f"{text}{' and more' * 120}"
    begin = len(name) + 2
    found = redaction.secrets_in(f"{name}: {long}")
    known = [(start - begin, end - begin) for start, end in found if start >= begin]
    known += value_behind(name, long)
    assert list(redaction.secrets_behind(name, long)) == list(redaction._merge(sorted(known)))
