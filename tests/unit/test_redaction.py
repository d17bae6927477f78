"""Secrets that stand behind a name which tells of one: the whole of them is masked."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from gateway.domain.redaction import key_masks, mask, mask_of, masks_in, render_safe, start_of
from gateway.domain.safe_text import make_visible
from tests.fake_secrets import WORDS, fake_secrets

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


def test_every_kind_of_secret_is_masked_in_every_form() -> None:
    """As text, as JSON on a card, as a member, and at the end of what was cut."""
    kinds = fake_secrets("form")
    assert len(kinds) >= 60
    for one in kinds:
        pretty = json.dumps({"command": one.text, "deep": [one.text]}, indent=2)
        shown = {
            "text": render_safe(one.text).text,
            "JSON": render_safe(pretty).text,
            "member": json.dumps(mask({"command": one.text, "deep": [{"x": one.text}]})),
            "cut": start_of(one.text + " more" * 99, one.text.index(one.secret) + 11),
        }
        assert [place for place, said in shown.items() if one.is_in(said)] == [], one.kind


def test_a_word_of_a_list_is_secret_when_an_earlier_one_says_so() -> None:
    """A flag's or a program's value, as JSON on a card and as a list in the audit."""
    for one in fake_secrets("words"):
        if one.kind in WORDS:
            words = one.text.split(" ")
            assert not one.is_in(json.dumps(mask({"argv": words}))), one.kind
            for indent in (None, 2):
                assert not one.is_in(render_safe(json.dumps(words, indent=indent)).text), one.kind


@pytest.mark.parametrize(
    "text",
    [
        "npm_config_registry=x",
        "docker build --secret id=npmrc .",
        "mysql -p shop",
        "mkdir -pv build",
        "ssh -p22 host",
        "docker run -u 1000:1000 x",
        "cd $PWD && pwd",
        "--password-file /run/x",
        "max_tokens: 100000",
        "git log --author=ann",
        "secretary: Johanna",
        "page_token=CAUQAA",
        "next_page_token: CAUQAA",
        "secretKeyRef: my-secret",
        "monkey: banana99",
        "re_authenticate_user_session_2",
        "ssh db-prod-us-east-1",
        "psql -h db-migration-2026-01",
        "rnd_generator_seed_42",
        "prf_hmac_sha256_derive_key",
        "ion_channel_model_v2_fitted",
    ],
)
def test_what_is_no_secret_is_shown(text: str) -> None:
    """Flags and names that only look like those of secrets."""
    assert render_safe(text).masked == 0


@pytest.mark.thorough
@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        *(
            "curl ",
            "mysql -p",
            "Cookie: a=b;",
            "--x-",
            "--password ",
            "agw_",
            "pwd",
            "x-a-",
            "a_b_",
        ),
        *(
            'curl "',
            "curl '",
            "curl ;",
            "curl \\",
            '["curl", ',
            "sshpass -v ",
            "sshpass -P ",
            "sk-a-",
            "redis-cli ",
            "docker login -p ",
            '"auth": "',
            "t1.a",
            "SG.a-",
            "pat-",
            "://a:b",
            "--a-",
            "pwd:",
            "apikey_",
            "gcntfy-a",
            "token: aaaaaa:",
            "access-production-",
            "0123456789abcdef" * 2 + ".",
        ),
    ],
)
def test_the_search_takes_time_that_grows_with_the_length_alone(text: str) -> None:
    """300 000 characters of what looks like the beginning of something."""
    assert render_safe(text * (300_000 // len(text))).segments


def test_a_masked_number_is_told_from_the_same_text() -> None:
    """What runs with `123456` is not what runs with `"123456"`, also where neither is shown."""
    number, text = mask({"password": 123456}), mask({"password": "123456"})
    assert number != text
    assert number["password"].startswith("⟨secret number of 6 characters, digest ")
    assert masks_in(number) == {number["password"]}


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("ls", ""),
        ("curl -H 'Authorization: Bearer abcdefgh12345678' x", "abcdefgh12345678"),
        ("--password=hunter2 --token=t0kent0ken", "hunter2t0kent0ken"),
        ("a\u202eb --password=hun\u200bter2 \u202e", "⟨U+202E⟩hun⟨U+200B⟩ter2⟨U+202E⟩"),
        # A letter is judged by its whole word, also where the secret begins within it.
        (
            "mysql -p\u0441\u0435\u0440\u0430 x",
            "⟨U+0441 \u0441⟩⟨U+0435 \u0435⟩⟨U+0440 \u0440⟩⟨U+0430 \u0430⟩",
        ),
        (f"-----BEGIN PRIVATE KEY-----\n{KEY}\n-----END PRIVATE KEY-----", f"\n{KEY}\n"),
    ],
)
def test_what_is_revealed_is_marked(text: str, marked: str) -> None:
    """All of it and nothing else, beside what is marked anyway; what is read stays the same."""
    shown = render_safe(text, reveal=True)
    assert "".join(part for part, mark in shown.segments if mark) == marked
    assert shown.text == make_visible(text).text
    assert (shown.hidden, shown.mixed_script, shown.masked) == (
        *(make_visible(text).hidden, make_visible(text).mixed_script),
        0,
    )


def test_what_is_revealed_is_marked_where_all_is_escaped() -> None:
    """Also in a text with more escapes than anybody would read one by one."""
    crowd = "\u200b\u200c" * 3000
    shown = render_safe(f"{crowd} --password=hunter2 {crowd}", reveal=True)
    assert [part for part, mark in shown.segments if mark] == ["hunter2"]


@pytest.mark.timeout(15)
def test_many_secrets_are_marked_at_once() -> None:
    """Each is looked at once, however many there are, and however many escapes."""
    shown = render_safe("--password=hunter2\n" * 20_000 + "\u200b" * 1999, reveal=True)
    assert sum(part == "hunter2" for part, mark in shown.segments if mark) == 20_000


def test_a_weak_secret_cannot_be_guessed_from_its_mask() -> None:
    """A PIN's mask depends on a key: the same where the key is, and of no use where it is not."""
    key_masks(b"of this gateway")
    here = mask_of("4821")
    plainly = {hashlib.sha256(f"{pin:04}".encode()).hexdigest()[:8] for pin in range(10_000)}
    key_masks(b"of another gateway")
    assert mask_of("4821") != here
    key_masks(b"of this gateway")
    assert mask_of("4821") == here
    assert not [one for one in plainly if one in here]


S = "Zx9-Qw7vLm3"  # of no shape: only its place tells
NAMES = """
pass db_pass pw passcode refreshToken idToken bearerToken sessionToken sasToken signing_key
encryption_key master_key credentials cookie jwt DB_PASS PASS AUTH SSHPASS REDISCLI_AUTH
TF_VAR_db_pass clientSecret apiKey API-Key dbPassword PGPASSWORD X-Auth X-Auth-Token
Ocp-Apim-Subscription-Key private-token
"""
MEMBERS: list[dict[str, Any]] = [
    *({name: S} for name in NAMES.split()),
    *(
        {"password": value}
        for value in (f"hunter2 {S}", f"${S}", f"~{S}", f"/etc/{S}", f'x"{S}"y', f"Bearer {S}")
    ),
    {"password": {"value": S}},
    {"password": [S]},
    {"key": "password", "value": S},
    {"Name": "PASSWORD", "Value": S},
    {"params": ["password", S]},
    {"connection_string": f"Server=x;Database=y;User Id=sa;Password={S};"},
]
PLACES = f"""
deploy --password '{S} and {S}'
DB_PASSWORD='{S} and {S}' run
password: str = "{S}"
d["password"] = "{S}"
password := "{S}"
'password' => '{S}'
const password = `{S}`
os.environ['API_KEY']='{S}'
<password>{S}</password>
password: |\\n  {S}\\n  {S}\\nother: x
password%3D{S}
ALTER USER a PASSWORD '{S}'
CREATE ROLE a WITH LOGIN PASSWORD '{S}'
CREATE USER a IDENTIFIED BY '{S}'
git clone https://{S}abcdef012@github.com/x
git clone https://{S}abcdef012:x-oauth-basic@github.com/x
curl https://h.example/x?key={S}0123
curl 'https://h.example/x?a=1&signature={S}'
https://h.example/x?X-Amz-Algorithm=AWS4&X-Amz-Signature={S}
Authorization: AWS4-HMAC-SHA256 Credential=x/y, SignedHeaders=host, Signature={S}
curl -H 'X-Auth: {S}' h.example
curl -uuser:{S} h.example
curl -u 'user:{S} {S}' h.example
machine x login y password {S}
npm config set //r.example/:_authToken={S}
helm upgrade a b --set db.password={S},x.y=1
echo {S} | docker login -u x --password-stdin
echo '{S}' | sudo -S ls
echo user:{S} | chpasswd
chpasswd <<< user:{S}
mysql -p'{S}' shop
mysql -p"{S}" shop
7z a -p'{S}' x.7z y
"""
# As those, and as a list of words.
COMMANDS = f"""
openssl rsa -passin pass:{S} -in k
openssl rsa -passout pass:{S} -in k
redis-cli AUTH {S}
redis-cli AUTH default {S}
redis-cli CONFIG SET requirepass {S}
ldapsearch -x -w {S}
zip -r -P {S} a.zip b
unzip -P {S} a.zip
7z a -p{S} x.7z y
ssh-keygen -t ed25519 -N {S} -f k
keytool -genkey -storepass {S} -keypass {S}
az login -u x -p {S}
twine upload -u x -p {S} x.whl
vault login {S}
aws configure set aws_secret_access_key {S}
aws secretsmanager create-secret --name x --secret-string {S}
gh secret set X -b {S}
gh secret set X --body {S}
kubectl create secret generic a --from-literal=k={S}
helm upgrade a b --set db.pass={S}
npm config set //r.example/:_authToken {S}
tailscale up --authkey {S}
tailscale up --auth-key={S}
mysql -p{S} shop
"""
BARE = {
    "Azure": "abc8Q~" + "aB3-" * 8 + "a",
    "SonarQube": "squ_" + "a1" * 20,
    "SonarQube project": "sqp_" + "a1" * 20,
    "NuGet": "oy2" + "a1b" * 14 + "a",
    "Dropbox": "sl." + "Ab1" * 25,
    "Notion": "secret_" + "aB3" * 14 + "a",
    "Plaid": "access-production-12345678-1234-1234-1234-123456789abc",
    "VK": "vk1.a." + "Ab1_" * 20,
    "Mapbox": "sk.eyJ1" + "Ab1" * 20 + "." + "Ab1" * 7,
}


@pytest.mark.parametrize("member", MEMBERS, ids=str)
def test_a_member_that_is_named_as_a_secret_is_masked_whole(member: dict[str, Any]) -> None:
    """However the words of its name are joined, whatever it is made of, and within what it holds;
    in the audit and as JSON on a card, also within JSON."""
    body = {"body": json.dumps(member)}
    shown = [json.dumps(mask(one)) for one in (member, body)]
    shown += [render_safe(json.dumps(one, indent=2)).text for one in (member, body)]
    assert not [said for said in shown if S in said]
    assert all("secret of" in said for said in shown)


@pytest.mark.parametrize(
    "text", ["password=mysecretpassword", "PGPASSWORD=my_password run", 'password: "my_password"']
)
def test_a_weak_password_is_no_name_in_code(text: str) -> None:
    """One word, a variable of a command, a quoted text: only code says names there."""
    assert render_safe(text).masked == 1


@pytest.mark.parametrize("pin", ["4821", 4821])
def test_a_pin_is_masked(pin: str | int) -> None:
    """Four digits are enough where the name says what they are."""
    assert "4821" not in json.dumps(mask({"pin": pin}))
    assert "4821" not in render_safe(json.dumps({"pin": pin})).text


@pytest.mark.parametrize("text", [*PLACES.strip().split("\n"), *COMMANDS.strip().split("\n")])
def test_a_secret_in_code_configuration_and_commands_is_masked(text: str) -> None:
    """As text, as the command of a call in the audit, and on a card."""
    text = text.replace("\\n", "\n")
    shown = [
        render_safe(text).text,
        json.dumps(mask({"command": text})),
        render_safe(json.dumps({"command": text})).text,
        start_of(text, text.index(S) + 5),
    ]
    assert not [said for said in shown if S[:5] in said]


@pytest.mark.parametrize("text", COMMANDS.strip().split("\n"))
def test_a_secret_word_of_a_list_is_masked(text: str) -> None:
    """Whichever program it is an option of."""
    words = text.split(" ")
    shown = [json.dumps(mask({"argv": words}))]
    shown += [render_safe(json.dumps(words, indent=indent)).text for indent in (None, 2)]
    assert not [said for said in shown if S in said]


@pytest.mark.parametrize("token", BARE.values(), ids=BARE)
def test_a_token_of_a_known_format_is_masked(token: str) -> None:
    """Alone, in a sentence and in JSON."""
    for text in (token, f"use {token}, please", json.dumps([token])):
        assert token[-10:] not in render_safe(text).text
