"""The counterpart itself: it behaves as Slack's documents say, to the real slack_sdk."""

import asyncio
from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_async_handlers import AsyncRateLimitErrorRetryHandler
from slack_sdk.web.async_client import AsyncWebClient

from tests.slack.counterpart.faults import Fault
from tests.slack.counterpart.slack import Slack
from tests.slack.counterpart.state import Hands

Json = dict[str, Any]


def plain(text: str) -> Json:
    """Return a plain_text object."""
    return {"type": "plain_text", "text": text, "emoji": False}


def button(label: str, action: str, **more: Any) -> Json:
    """Return a button."""
    return {"type": "button", "text": plain(label), "action_id": action, **more}


def exact(text: str) -> Json:
    """Return a preformatted rich text block."""
    part = {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": text}]}
    return {"type": "rich_text", "block_id": "exact", "elements": [part]}


def modal(**more: Any) -> Json:
    """Return a modal without fields."""
    section = {"type": "section", "text": plain("hello")}
    return {"type": "modal", "title": plain("Title"), "blocks": [section], **more}


async def refused(call: Any) -> str:
    """Return the error code of a call that Slack refuses."""
    with pytest.raises(SlackApiError) as caught:
        await call
    return str(caught.value.response["error"])


async def test_auth_test_names_the_workspace_and_its_scopes(
    slack: Slack, client: AsyncWebClient
) -> None:
    """A client learns who it is and what it may do; a wrong token learns nothing."""
    answer = await client.auth_test()
    assert (answer["team_id"], answer["user_id"]) == ("T1", "UBOTT1")
    assert "chat:write" in answer.headers["x-oauth-scopes"]
    stranger = AsyncWebClient(token="xoxb-wrong", base_url=slack.api_url)
    assert await refused(stranger.auth_test()) == "invalid_auth"
    assert await refused(AsyncWebClient(base_url=slack.api_url).auth_test()) == "not_authed"


@pytest.mark.parametrize("style", ["query", "form", "json"])
async def test_arguments_are_taken_in_every_style(slack: Slack, style: str) -> None:
    """Query string, form and JSON body are the same call."""
    arguments = {"channel": "C1", "text": "hi"}
    headers = {"Authorization": f"Bearer {slack.workspace().bot_token}"}
    name = {"query": "params", "form": "data", "json": "json"}[style]
    url = f"{slack.api_url}chat.postMessage"
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.request("POST", url, **{name: arguments}) as response,  # type: ignore[arg-type]
    ):
        assert (await response.json())["ok"]
    assert slack.messages("C1")[0].text == "hi"


async def test_a_post_needs_a_channel_the_app_is_in(slack: Slack, client: AsyncWebClient) -> None:
    """Each way of not being able to post has its own code."""
    slack.channel("C2").members.clear()
    slack.channel("C3").archived = True
    slack.workspace().users["UBOB"].deleted = True
    assert await refused(client.chat_postMessage(channel="C0", text="x")) == "channel_not_found"
    assert await refused(client.chat_postMessage(channel="C2", text="x")) == "not_in_channel"
    assert await refused(client.chat_postMessage(channel="C3", text="x")) == "is_archived"
    assert await refused(client.chat_postMessage(channel="UBOB", text="x")) == "user_disabled"
    empty = client.api_call("chat.postMessage", json={"channel": "C1"})
    assert await refused(empty) == "no_text"


async def test_a_direct_message_has_an_id_of_its_own(slack: Slack, client: AsyncWebClient) -> None:
    """Posting to a user gives a D id, and only that id can be edited."""
    slack.workspace().scopes += ",im:write"
    posted = await client.chat_postMessage(channel="UANN", text="hi")
    assert posted["channel"] == "DANN"
    assert (await client.conversations_open(users="UANN"))["channel"]["id"] == "DANN"
    missing = client.chat_update(channel="UANN", ts=posted["ts"], text="new")
    assert await refused(missing) == "channel_not_found"
    await client.chat_update(channel="DANN", ts=posted["ts"], text="new")
    assert slack.messages("DANN")[0].text == "new"


@pytest.mark.parametrize(
    "block",
    [
        {"type": "header", "text": plain("x" * 151)},
        {"type": "section", "text": plain("x" * 3001)},
        {"type": "section", "text": plain("")},
        {"type": "section", "fields": [plain("x" * 2001)]},
        {"type": "section", "fields": [plain("x")] * 11},
        {"type": "context", "elements": [plain("x")] * 11},
        {"type": "context", "elements": []},
        {"type": "actions", "elements": [button("x" * 76, "a")]},
        {"type": "actions", "elements": [button("x", "a", value="v" * 2001)]},
        {"type": "actions", "elements": [button("x", "a" * 256)]},
        {"type": "actions", "elements": [button("x", "a"), button("y", "a")]},
        {"type": "actions", "elements": [button("x", str(n)) for n in range(26)]},
        {"type": "actions", "elements": [button("x", "a", style="green")]},
        {"type": "unheard_of"},
        {"type": "section", "text": plain("x"), "colour": "red"},
        exact(""),
        {"type": "divider", "block_id": "b" * 256},
    ],
)
async def test_a_block_that_slack_would_refuse_is_refused(
    client: AsyncWebClient, block: Json
) -> None:
    """Every documented limit of a block is enforced, with the pointer to the place."""
    with pytest.raises(SlackApiError) as caught:
        await client.chat_postMessage(channel="C1", text="x", blocks=[block])
    assert caught.value.response["error"] == "invalid_blocks"
    assert "json-pointer:/blocks/0" in caught.value.response["response_metadata"]["messages"][0]
    with pytest.raises(SlackApiError):
        await client.blocks_validate(blocks=[block])


async def test_a_message_has_limits_as_a_whole(slack: Slack, client: AsyncWebClient) -> None:
    """Fifty blocks, block ids once, and a cumulative text size."""
    many = [{"type": "divider"}] * 51
    assert (
        await refused(client.chat_postMessage(channel="C1", text="x", blocks=many))
        == "invalid_blocks"
    )
    twice = [{"type": "divider", "block_id": "b"}] * 2
    assert (
        await refused(client.chat_postMessage(channel="C1", text="x", blocks=twice))
        == "invalid_blocks"
    )
    long = [{"type": "section", "text": plain("x" * 2900)}] * 5
    post = client.chat_postMessage(channel="C1", text="x", blocks=long)
    assert await refused(post) == "msg_blocks_too_long"
    await client.chat_postMessage(channel="C1", text="x", blocks=long[:4])


async def test_an_update_is_stricter_than_a_post(slack: Slack, client: AsyncWebClient) -> None:
    """Rich text stays rich text, and the text is at most 4,000 characters."""
    posted = await client.chat_postMessage(channel="C1", text="x", blocks=[exact("rm")])
    where = {"channel": "C1", "ts": posted["ts"]}
    bare = client.chat_update(**where, text="x", blocks=[{"type": "divider"}])
    assert await refused(bare) == "block_mismatch"
    assert await refused(client.chat_update(**where, text="x" * 4001)) == "msg_too_long"
    await client.chat_update(**where, text="y", blocks=[exact("rm"), {"type": "divider"}])
    message = slack.messages("C1")[0]
    assert (message.text, message.edits) == ("y", 1)
    message.locked = True
    late = client.chat_update(**where, text="y", blocks=[exact("rm")])
    assert await refused(late) == "edit_window_closed"
    gone = client.chat_update(channel="C1", ts="1.2", text="y")
    assert await refused(gone) == "message_not_found"


async def test_rates_are_limited_per_method_and_channel() -> None:
    """The tier's calls pass, the next is told when to come back, another workspace is free."""
    hands = Hands(simulated=True)
    slack = Slack(hands, burst=1)
    slack.channel("C1")
    slack.channel("C1", team="T2")
    async with slack.running():
        first, second = (
            AsyncWebClient(
                token=slack.workspace(t).bot_token, base_url=slack.api_url, retry_handlers=[]
            )
            for t in ("T1", "T2")
        )
        posted = await first.chat_postMessage(channel="C1", text="x")
        with pytest.raises(SlackApiError) as caught:
            await first.chat_postMessage(channel="C1", text="x")
        assert caught.value.response.status_code == 429
        assert caught.value.response.headers["Retry-After"] == "1"
        await second.chat_postMessage(channel="C1", text="x")
        for _ in range(50):
            await first.chat_update(channel="C1", ts=posted["ts"], text="y")
        again = first.chat_update(channel="C1", ts=posted["ts"], text="z")
        assert await refused(again) == "ratelimited"
        hands.advance(60)
        await first.chat_update(channel="C1", ts=posted["ts"], text="z")


async def test_faults_happen_as_planned(slack: Slack, client: AsyncWebClient) -> None:
    """503, HTML, a hang, a drop after the post and a lost answer reach the caller as such."""
    for fault in (Fault.UNAVAILABLE, Fault.HTML):
        slack.faults.plan("chat.postMessage", fault)
        with pytest.raises(SlackApiError):
            await client.chat_postMessage(channel="C1", text=fault.name)
    client.timeout = 1
    for fault, error in (
        (Fault.HANGS, TimeoutError),
        (Fault.DROPPED, aiohttp.ClientError),
        (Fault.LOST, TimeoutError),
    ):
        slack.faults.plan("chat.postMessage", fault)
        with pytest.raises(error):
            await client.chat_postMessage(channel="C1", text=fault.name)
    assert [message.text for message in slack.messages("C1")] == ["DROPPED", "LOST"]


async def test_the_sdk_as_it_comes_posts_twice_after_a_drop(slack: Slack) -> None:
    """The trap: the default client sends a dropped post again. Our adapter must not use it."""
    default = AsyncWebClient(token=slack.workspace().bot_token, base_url=slack.api_url)
    slack.faults.plan("chat.postMessage", Fault.DROPPED)
    await default.chat_postMessage(channel="C1", text="twice")
    assert len(slack.messages("C1")) == 2


async def test_the_sdk_honours_retry_after(slack: Slack, client: AsyncWebClient) -> None:
    """A 429 with Retry-After is waited out by the handler that the SDK brings."""
    client.retry_handlers.append(AsyncRateLimitErrorRetryHandler())
    slack.faults.plan("users.info", Fault.LIMITED)
    assert (await client.users_info(user="UANN"))["user"]["name"] == "ann"


async def test_a_trigger_lives_three_seconds_and_once() -> None:
    """Late, used and foreign triggers are refused, each with its code."""
    hands = Hands(simulated=True)
    slack = Slack(hands)
    ann = slack.person("UANN")
    async with slack.running():
        client = AsyncWebClient(token=slack.workspace().bot_token, base_url=slack.api_url)
        first, second = (ann.payloads.command("/a", "", "C1")["trigger_id"] for _ in range(2))
        await client.views_open(trigger_id=first, view=modal())
        again = client.views_open(trigger_id=first, view=modal())
        assert await refused(again) == "exchanged_trigger_id"
        hands.advance(3.1)
        late = client.views_open(trigger_id=second, view=modal())
        assert await refused(late) == "expired_trigger_id"
        forged = client.views_open(trigger_id="1.2.3", view=modal())
        assert await refused(forged) == "invalid_trigger_id"


async def test_views_keep_their_hash_and_limits(slack: Slack, client: AsyncWebClient) -> None:
    """A stale hash, a long title, a big view and an input without submit are refused."""
    ann = slack.person("UANN")
    trigger = ann.payloads.command("/a", "", "C1")["trigger_id"]
    opened = (await client.views_open(trigger_id=trigger, view=modal()))["view"]
    await client.views_update(view_id=opened["id"], view=modal(), hash=opened["hash"])
    stale = client.views_update(view_id=opened["id"], view=modal(), hash=opened["hash"])
    assert await refused(stale) == "hash_conflict"
    field = {"type": "plain_text_input", "action_id": "a"}
    inputs = [{"type": "input", "block_id": "i", "label": plain("Why"), "element": field}]
    for view in (
        modal(title=plain("x" * 25)),
        modal(private_metadata="x" * 3001),
        modal(blocks=inputs),
        modal(blocks=[{"type": "divider"}] * 101),
    ):
        update = client.views_update(view_id=opened["id"], view=view)
        assert await refused(update) == "invalid_arguments"
    published = (await client.views_publish(user_id="UANN", view=modal(type="home")))["view"]
    await client.views_publish(user_id="UANN", view=modal(type="home"), hash=published["hash"])
    old = client.views_publish(user_id="UANN", view=modal(type="home"), hash=published["hash"])
    assert await refused(old) == "hash_conflict"


async def test_files_are_uploaded_in_three_steps(slack: Slack, client: AsyncWebClient) -> None:
    """files_upload_v2 leaves the very bytes in the thread; a short upload is refused."""
    posted = await client.chat_postMessage(channel="C1", text="card")
    await client.files_upload_v2(
        channel="C1", thread_ts=posted["ts"], content="äö\n" * 10, filename="full.txt", title="Full"
    )
    (file,) = slack.workspace().files.values()
    assert (file.content, file.title) == (("äö\n" * 10).encode(), "Full")
    assert slack.thread("C1", posted["ts"])[0].files == [file.id]
    answer = await client.files_getUploadURLExternal(filename="a", length=5)
    async with aiohttp.ClientSession() as session:
        response = await session.post(answer["upload_url"], data=b"123")
        assert response.status == 400
    short = client.files_completeUploadExternal(files=[{"id": answer["file_id"], "title": "a"}])
    assert await refused(short) == "file_not_found"


async def test_directory_calls(slack: Slack, client: AsyncWebClient) -> None:
    """Members, groups and channels are as they are now, and refused when they are not."""
    workspace = slack.workspace()
    workspace.groups["S1"] = ["UANN"]
    assert (await client.usergroups_users_list(usergroup="S1"))["users"] == ["UANN"]
    assert await refused(client.usergroups_users_list(usergroup="S2")) == "no_such_subteam"
    workspace.org_token = True
    assert await refused(client.usergroups_users_list(usergroup="S1")) == "missing_argument"
    assert (await client.usergroups_users_list(usergroup="S1", team_id="T1"))["users"]
    workspace.paid = False
    unpaid = client.usergroups_users_list(usergroup="S1", team_id="T1")
    assert await refused(unpaid) == "plan_upgrade_required"
    assert await refused(client.users_info(user="U0")) == "user_not_found"
    assert (await client.conversations_info(channel="C1"))["channel"]["is_member"]
    page = await client.conversations_members(channel="C1", limit=2)
    assert page["response_metadata"]["next_cursor"] == "2"
    stranger = client.chat_postEphemeral(channel="C1", user="U0", text="x")
    assert await refused(stranger) == "user_not_found"
    link = await client.chat_getPermalink(
        channel="C1", message_ts=(await client.chat_postMessage(channel="C1", text="x"))["ts"]
    )
    assert "/archives/C1/p" in link["permalink"]
    assert (await client.bots_info(bot="BT1"))["bot"]["app_id"] == slack.state.app_id


async def test_a_missing_scope_is_named(slack: Slack, client: AsyncWebClient) -> None:
    """Without the scope the call is refused and the scope is named."""
    slack.workspace().scopes = "chat:write"
    with pytest.raises(SlackApiError) as caught:
        await client.users_info(user="UANN")
    assert caught.value.response["needed"] == "users:read"


async def test_oauth_gives_each_workspace_its_token(slack: Slack) -> None:
    """A code is good once, and only with the right secret."""
    slack.workspace("T2")
    slack.state.codes["c1"] = "T2"
    client = AsyncWebClient(base_url=slack.api_url)
    right = {"client_id": slack.state.client_id, "client_secret": slack.state.client_secret}
    wrong = client.oauth_v2_access(client_id="1", client_secret="2", code="c1")
    assert await refused(wrong) == "bad_client_secret"
    answer = await client.oauth_v2_access(**right, code="c1")
    assert answer["access_token"] == slack.workspace("T2").bot_token
    assert await refused(client.oauth_v2_access(**right, code="c1")) == "invalid_code"


async def test_a_response_url_is_good_five_times_for_half_an_hour() -> None:
    """The sixth use and a late one are refused; what was sent is seen by that person alone."""
    hands = Hands(simulated=True)
    slack = Slack(hands)
    ann, bob = slack.person("UANN"), slack.person("UBOB")
    async with slack.running(), aiohttp.ClientSession() as session:
        url = ann.payloads.command("/a", "", "C1")["response_url"]
        statuses = [(await session.post(url, json={"text": "x"})).status for _ in range(6)]
        assert statuses == [200] * 5 + [404]
        late = ann.payloads.command("/a", "", "C1")["response_url"]
        hands.advance(1801)
        assert (await session.post(late, json={"text": "x"})).status == 404
    assert (len(ann.private()), bob.private()) == (5, [])


async def test_waiting_ends_when_something_changes(slack: Slack, client: AsyncWebClient) -> None:
    """`until` returns at the change it waits for, without looking at a clock."""
    waiting = asyncio.create_task(slack.until(lambda: slack.messages("C1")))
    await client.chat_postMessage(channel="C1", text="x")
    assert (await waiting)[0].text == "x"
