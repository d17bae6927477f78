"""Home is true while somebody looks at it: what comes and goes, and when everything is stopped."""

from __future__ import annotations

from tests.slack.counterpart.slack import Slack
from tests.slack.office import Office, at_work, words
from tests.waiting import moment
from tests.world import World, click, identity


def says(office: Office, part: str) -> bool:
    """Whether ann's Home says something."""
    homes = office.slack.workspace().homes
    return "UANN" in homes and part in " ".join(words(office.ann.home["blocks"]))


def offered(office: Office) -> set[str]:
    """Return the labels of the buttons in ann's Home."""
    return {one["text"]["text"] for _, one in office.ann.buttons(office.ann.home["blocks"])}


async def test_what_comes_and_goes_is_drawn(office: Office) -> None:
    """A request comes while the tab is open, and goes when somebody else decides it."""
    await office.ann.open_home()
    await office.slack.until(lambda: says(office, "You have no pending"))
    record = await office.ask()
    await office.slack.until(lambda: says(office, "1 pending"))
    assert "Approve" in offered(office)
    await office.api.requests.decide(click(record, identity=identity("bob")))
    await office.slack.until(lambda: says(office, "You have no pending"))


async def test_a_stop_takes_every_approve_away(office: Office) -> None:
    """Stopped by somebody else: the tab offers nothing to decide until it is lifted."""
    await office.asked()
    await office.ann.open_home()
    await office.slack.until(lambda: says(office, "1 pending"))
    await office.api.operator.stop_all(identity("root"), on=True)
    await office.slack.until(lambda: says(office, "kill switch"))
    assert "Approve" not in offered(office)


async def test_nobody_is_drawn_who_sees_no_change(office: Office) -> None:
    """What is not for them costs no call of Slack's."""
    eve = office.slack.person("UEVE", name="eve")
    await eve.open_home()
    await office.ann.open_home()
    await office.slack.until(lambda: len(office.slack.state.called("views.publish")) == 2)
    await office.ask()
    await office.slack.until(lambda: says(office, "1 pending"))
    drawn = [call["user_id"] for call in office.slack.state.called("views.publish")]
    assert drawn.count("UEVE") == 1


async def test_a_tab_stays_true_over_a_restart(slack: Slack, world: World) -> None:
    """Whoever had it open before is drawn by the process that came after."""
    async with at_work(slack, world) as office:
        await office.ann.open_home()
        await slack.until(lambda: says(office, "You have no pending"))
        while await office.api.notes.get("homes") is None:
            await moment()
    async with at_work(slack, world) as office:
        await office.ask()
        await slack.until(lambda: says(office, "1 pending"))
