"""`gateway slack setup`: the tokens that it asks for, and each way that one can be wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import pytest

from adapters.slack import SlackAdapter
from adapters.slack.installation import build_manifest
from gateway.errors import InvalidRequest, Unreachable
from gateway.ports import ChatSetup
from tests.slack.counterpart.faults import Fault
from tests.slack.counterpart.slack import Slack
from tests.slack.office import environment

BOT, APP = "GATEWAY_SLACK_BOT_TOKEN", "GATEWAY_SLACK_APP_TOKEN"
BOT_TOKEN, APP_TOKEN = "xoxb-T1-secret", "xapp-1-A0GATEWAY-test"
TOKENS = {BOT: BOT_TOKEN, APP: APP_TOKEN}
PAGE = "https://api.slack.com/apps/A0GATEWAY/general"
CREATE = "https://api.slack.com/apps?new_app=1&manifest_json="
Pasted = str | Callable[[], str]


@dataclass
class Typist:
    """A terminal and who sits at it: pastes one thing after the other, then cannot type."""

    pastes: list[Pasted] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)

    def keep(self, variable: str, value: str) -> None:
        """Keep a token for the next set-up."""
        self.kept[variable] = value

    def say(self, line: str) -> None:
        """Read a line."""
        self.lines.append(line)

    def open(self, url: str) -> None:
        """Open a link."""
        self.opened.append(url)

    async def ask_secret(self, question: str, variable: str) -> str:
        """Paste the next thing."""
        self.asked.append(variable)
        if not self.pastes:
            raise InvalidRequest("nobody can type here")
        pasted = self.pastes.pop(0)
        return pasted if isinstance(pasted, str) else pasted()


@pytest.fixture(autouse=True)
def no_tokens(slack: Slack) -> Iterator[None]:
    """Point the settings at the counterpart, without any token."""
    with environment(slack, **dict.fromkeys(TOKENS, "")):
        yield


async def connect(typist: Typist, known: Mapping[str, str] | None = None) -> dict[str, str]:
    """Run the set-up."""
    chat: ChatSetup | None = SlackAdapter().setup
    assert chat is not None
    return await chat.connect(typist, known or {})


async def test_a_set_up_that_is_broken_off_goes_on_where_it_was(slack: Slack) -> None:
    """A token that was found good is kept at once, and not asked for again; a wrong one is not."""
    first = Typist([BOT_TOKEN, "xapp-1-A000-1-x"])
    with pytest.raises(InvalidRequest):
        await connect(first)
    assert first.kept == {"GATEWAY_SLACK_BOT_TOKEN": BOT_TOKEN}
    second = Typist([APP_TOKEN])
    assert await connect(second, first.kept) == TOKENS
    assert second.asked == ["GATEWAY_SLACK_APP_TOKEN"]


async def test_two_pasted_tokens_connect_an_app(slack: Slack) -> None:
    """The link makes an app of our manifest, the next one leads to that app's page, and a Socket
    Mode connection opens and closes. No token is ever printed."""
    typist = Typist([f" {BOT_TOKEN}\n", APP_TOKEN])
    assert await connect(typist) == TOKENS
    create, page = typist.opened
    assert create.startswith(CREATE) and len(create) <= 2300
    (manifest,) = parse_qs(urlsplit(create).query)["manifest_json"]
    assert json.loads(manifest) == build_manifest()
    assert page == PAGE
    assert typist.asked == [BOT, APP]
    assert len(typist.lines) == 4
    assert "gateway in Team T1 (T1)" in typist.lines[1]
    assert "secret" not in str(typist.lines) and APP_TOKEN not in str(typist.lines)
    await slack.until(lambda: not slack.sockets.open)
    assert slack.sockets.connected == 1


def test_what_people_type_then_is_our_command() -> None:
    """The core prints it, and keeps the settings that are named."""
    chat = SlackAdapter().setup
    assert chat is not None
    assert (chat.variables, chat.invite, chat.command) == (
        (BOT, APP),
        "/invite @approvals",
        "/approvals",
    )


@pytest.mark.parametrize(
    ("pasted", "said"),
    [
        ("", "You pasted no app token. The right token begins with xoxb-"),
        ("Approvals", "no app token"),
        (
            APP_TOKEN,
            "an app-level token. The right token begins with xoxb-; find it on the page OAuth",
        ),
        ("xoxp-1-2-3", "a user token"),
        ("xoxe.xoxp-1-2", "an app configuration token"),
        ("xoxb-wrong", "Slack does not know this token: copy the token again"),
    ],
)
async def test_a_wrong_bot_token_is_asked_for_again(pasted: str, said: str) -> None:
    """With a sentence that says what it is."""
    typist = Typist([pasted, BOT_TOKEN, APP_TOKEN])
    assert await connect(typist) == TOKENS
    assert said in typist.lines[1]
    assert typist.asked == [BOT, BOT, APP]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("token_revoked", "This token was revoked: copy the token again, or reinstall the app"),
        ("account_inactive", "The app was removed from the workspace"),
        ("org_login_required", "Slack rejects this token (org_login_required)"),
    ],
)
async def test_a_bot_token_that_slack_refuses(slack: Slack, error: str, said: str) -> None:
    """What Slack says of it is told in words; reinstalled, it works."""
    slack.workspace().error = error

    def reinstall() -> str:
        slack.workspace().error = None
        return BOT_TOKEN

    typist = Typist([BOT_TOKEN, reinstall, APP_TOKEN])
    assert await connect(typist) == TOKENS
    assert said in typist.lines[1]


async def test_an_app_that_lacks_scopes(slack: Slack) -> None:
    """Those that are missing are named; reinstalled with them, the same token works."""
    whole = slack.workspace().scopes
    slack.workspace().scopes = "chat:write,commands,users:read,usergroups:read,channels:read"

    def reinstall() -> str:
        slack.workspace().scopes = whole
        return BOT_TOKEN

    typist = Typist([BOT_TOKEN, reinstall, APP_TOKEN])
    assert await connect(typist) == TOKENS
    assert "The app lacks files:write, groups:read: add it" in typist.lines[1]
    assert "reinstall" in typist.lines[1]


@pytest.mark.parametrize(
    ("pasted", "said"),
    [
        (
            BOT_TOKEN,
            "a bot token. The right token begins with xapp-; find it on the page Basic Information",
        ),
        ("xoxp-1", "a user token"),
        ("xapp-1-A0OTHER-1-abc", "to another app, A0OTHER, perhaps in another workspace"),
        (
            "xapp-1-A0GATEWAY-1-no",
            "Slack does not know this token: copy the token again, or generate",
        ),
        ("xapp-1", "Slack does not know this token"),
    ],
)
async def test_a_wrong_app_token_is_asked_for_again(pasted: str, said: str) -> None:
    """Also one of another app of the same person, which would work: clicks would go there."""
    typist = Typist([BOT_TOKEN, pasted, APP_TOKEN])
    assert await connect(typist) == TOKENS
    assert said in typist.lines[3]
    assert typist.asked == [BOT, APP, APP]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("token_revoked", "This token was revoked: copy the token again, or generate a new"),
        ("missing_scope", "This token lacks the scope connections:write"),
    ],
)
async def test_an_app_token_that_slack_refuses(slack: Slack, error: str, said: str) -> None:
    """What Slack says of it is told in words."""
    slack.sockets.refuses = error

    def generate() -> str:
        slack.sockets.refuses = ""
        return APP_TOKEN

    typist = Typist([BOT_TOKEN, APP_TOKEN, generate])
    assert await connect(typist) == TOKENS
    assert said in typist.lines[3]


async def test_socket_mode_that_is_off(slack: Slack) -> None:
    """The token is right, and no click would ever come."""
    slack.sockets.off = True

    def turn_on() -> str:
        slack.sockets.off = False
        return APP_TOKEN

    typist = Typist([BOT_TOKEN, APP_TOKEN, turn_on])
    assert await connect(typist) == TOKENS
    assert "(link_disabled): turn on Socket Mode" in typist.lines[3]


async def test_after_five_wrong_tokens_it_ends() -> None:
    """And asks for no sixth."""
    typist = Typist([f"xoxb-{number}" for number in range(9)])
    with pytest.raises(InvalidRequest, match="all 5 tokens failed"):
        await connect(typist)
    assert typist.asked == [BOT] * 5


async def test_tokens_that_are_known_are_not_asked_for(slack: Slack) -> None:
    """Nothing is typed or opened; and no connection opens, which could take a running gateway's
    clicks."""
    typist = Typist()
    assert await connect(typist, TOKENS) == TOKENS
    assert (typist.asked, typist.opened, slack.sockets.connected) == ([], [], 0)


async def test_a_broken_off_set_up_goes_on() -> None:
    """With the one token that is missing."""
    typist = Typist([APP_TOKEN])
    assert await connect(typist, {BOT: BOT_TOKEN}) == TOKENS
    assert (typist.asked, typist.opened) == ([APP], [PAGE])


@pytest.mark.parametrize(
    ("known", "asked"),
    [
        ({BOT: "xoxb-old", APP: APP_TOKEN}, [BOT]),
        ({BOT: BOT_TOKEN, APP: "xapp-1-A0OLD-1-x"}, [APP]),
    ],
)
async def test_a_known_token_that_does_not_work_is_asked_for(
    known: dict[str, str], asked: list[str]
) -> None:
    """It alone, with the sentence that says why; one of another app does not."""
    typist = Typist([TOKENS[asked[0]]])
    assert await connect(typist, known) == TOKENS
    assert typist.asked == asked


@pytest.mark.parametrize("method", ["auth.test", "bots.info", "apps.connections.open"])
@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.LIMITED, Fault.HTML])
async def test_a_slack_that_is_away_asks_for_no_other_token(
    slack: Slack, method: str, fault: Fault
) -> None:
    """Another token would not help; run again, it goes on."""
    slack.faults.plan(method, fault)
    typist = Typist([BOT_TOKEN, APP_TOKEN, APP_TOKEN])
    with pytest.raises(Unreachable, match="HTTPS_PROXY, then run `gateway slack setup` again"):
        await connect(typist)
    assert typist.asked in ([BOT], [BOT, APP])


async def test_where_no_socket_opens_the_network_is_named(
    slack: Slack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slack takes the token, but a firewall stops the connection."""
    monkeypatch.setattr(slack.sockets, "ticket", lambda _: "ws://127.0.0.1:9/link")
    with pytest.raises(Unreachable, match="firewall and HTTPS_PROXY"):
        await connect(Typist([BOT_TOKEN, APP_TOKEN]))


async def test_nobody_can_type(slack: Slack) -> None:
    """Then it ends with what to set, and nothing is kept."""
    with pytest.raises(InvalidRequest, match="nobody can type"):
        await connect(Typist([BOT_TOKEN]))


async def test_mode_http_is_not_set_up_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has another manifest, and needs no app-level token."""
    monkeypatch.setenv("GATEWAY_SLACK_MODE", "http")
    typist = Typist([BOT_TOKEN, APP_TOKEN])
    with pytest.raises(InvalidRequest, match="only socket mode"):
        await connect(typist)
    assert typist.asked == []
