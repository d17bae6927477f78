"""What the Slack tests share: a counterpart that serves, and a client of the real SDK."""

from collections.abc import AsyncIterator

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from tests.slack.counterpart.slack import Slack
from tests.slack.office import Office, at_work
from tests.world import World


@pytest.fixture
async def slack() -> AsyncIterator[Slack]:
    """Yield a running Slack with workspace T1, where ann and bob are in channel C1."""
    made = Slack()
    made.channel("C1", "UANN", "UBOB")
    made.person("UANN", name="ann")
    made.person("UBOB", name="bob")
    async with made.running():
        yield made


@pytest.fixture
def client(slack: Slack) -> AsyncWebClient:
    """Return slack_sdk's client of workspace T1, as it comes, without its own retries."""
    token = slack.workspace().bot_token
    return AsyncWebClient(token=token, base_url=slack.api_url, retry_handlers=[], timeout=2)


@pytest.fixture
async def office(slack: Slack, world: World) -> AsyncIterator[Office]:
    """Yield a gateway at work on T1, whose cards go to C1."""
    async with at_work(slack, world) as made:
        yield made
