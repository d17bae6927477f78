"""`gateway NAME setup` and what belongs to it, with a chat of files that a test installs."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.cli.kept_settings import FILE_NAME, keep, take_kept
from gateway.wire.local_discovery import write_private
from tests.cli.shell import Shell
from tests.cli.test_adapters import install
from tests.cli.tty import Tty

HUT = '''
import asyncio
import contextlib
import os
from pathlib import Path

from gateway.errors import GatewayError
from gateway.models import Action
from gateway.ports import Adapter, ChatSetup, Claimant, ClaimedPlace, Click, Identity, MessageRef

PLACE = ClaimedPlace(target="hut:door", words="#door of Hut (2 members, not shared)")


class HutSetup(ChatSetup):
    variables = ("GATEWAY_HUT_TOKEN",)
    invite = "/invite @hut"
    command = "/hut"
    option = ""

    async def connect(self, terminal, known):
        token = known.get("GATEWAY_HUT_TOKEN", "")
        while token != "right":
            token = await terminal.ask_secret("The token", "GATEWAY_HUT_TOKEN")
            terminal.say("✓ the token works" if token == "right" else "this is no token")
        return {"GATEWAY_HUT_TOKEN": token}


class HutAdapter(Adapter):
    """Reads lines `USER WORDS` from the file `said`, and approves each card as the user `U1`."""

    name = "hut"
    setup = HutSetup()

    @contextlib.asynccontextmanager
    async def run(self, api):
        if os.environ.get("GATEWAY_HUT_TOKEN") != "right":
            raise RuntimeError("no token")
        self.api, self.folder = api, Path(os.environ["HUT_FOLDER"])
        listening = asyncio.create_task(self.listen())
        yield
        listening.cancel()

    async def listen(self):
        while True:
            with contextlib.suppress(FileNotFoundError):
                user, verb, code = (self.folder / "said").read_text().split()
                (self.folder / "said").unlink()
                identity = Identity(platform="hut", id=user)
                by = Claimant(identity=identity, handle="ana", words=f"Ana (@ana, {user})")
                try:
                    told = await self.api.claims.claim(code, by, PLACE if verb == "here" else None)
                except GatewayError as error:
                    told = str(error)
                (self.folder / "replied").write_text(told)  # a pipe
            await asyncio.sleep(0.05)

    async def deliver(self, target, shown, nonce):
        ref = MessageRef(adapter="hut", channel=target, message=nonce)
        if not shown.final:
            asyncio.create_task(self.approve(shown, nonce, ref))
        return ref

    async def approve(self, card, nonce, ref):
        await asyncio.sleep(0.3)
        who = Identity(platform="hut", id="U1")
        await self.api.requests.decide(
            Click(request_id=card.request_id, revision=card.revision, identity=who, nonce="n",
                  action=Action.APPROVE, copy=nonce, ref=ref)
        )

    async def update(self, ref, shown, nonce):
        pass

    async def tell(self, notice, shown):
        pass
'''


@pytest.fixture
def hut(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """Yield a shell beside which the chat is installed."""
    site = tmp_path / "site"
    install(site, "hut", HUT, {"hut": "hut:HutAdapter"})
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    shell.env |= {"PYTHONPATH": path, "HUT_FOLDER": str(tmp_path)}
    monkeypatch.syspath_prepend(site)
    os.mkfifo(tmp_path / "replied")
    yield shell
    sys.modules.pop("hut", None)
    shell.call("down")


def type_in_chat(folder: Path, line: str) -> str:
    """Have somebody type in the chat; return the private reply."""
    (folder / "draft").write_text(line, encoding="utf-8")
    (folder / "draft").rename(folder / "said")
    return (folder / "replied").read_text(encoding="utf-8")


def policy_of(shell: Shell) -> dict[str, object]:
    """Return the policy in force."""
    found: dict[str, object] = json.loads(shell.run("policy", "show", "--json"))
    return found


def test_a_chat_is_connected_from_nothing(hut: Shell, tmp_path: Path) -> None:
    """A wrong token, a code, a yes, a first card; the gateway is started, and goes on."""
    with Tty(["hut", "setup"], hut.env) as setup:
        setup.until("The token")
        setup.type("wrong")
        setup.until("this is no token")
        setup.until("The token")  # what is typed before the question is thrown away
        setup.type("right")
        setup.until("✓ the token works")
        setup.until("Starting the gateway")
        setup.until("✓ The gateway runs, and hut is connected")
        setup.until("/invite @hut")
        code = setup.until(r"/hut here (\S+)")[1]
        number = type_in_chat(tmp_path, f"U1 here {code}")
        setup.until(r"Ana \(@ana, U1\) in #door of Hut \(2 members, not shared\)")
        setup.until(f"The number in their private reply: {number}")
        setup.until("hut:door")
        setup.until(r"\[y/N\]")
        setup.type("y")
        setup.until("✓ Approved by ana-hut")
        assert setup.ended() == 0
        assert "wrong" not in setup.said  # what is typed is not shown
    kept = Path(hut.env["GATEWAY_DATA_DIR"]) / FILE_NAME
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    policy = policy_of(hut)
    assert [one["name"] for one in policy["people"]] == ["owner", "ana-hut"]  # type: ignore[attr-defined]
    said = hut.run("hut", "status")
    assert "set up here, runs" in said and "hut:door" in said and "ana" in said
    assert policy["routes"][0]["targets"] == ["web", "hut:door"]  # type: ignore[index]
    said = hut.run("hut", "remove")
    assert "hut:door" in said and "revoke its tokens" in said
    assert "hut" not in kept.read_text()
    assert "hut is not set up: run gateway hut setup" in hut.run("hut", "status")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_code_ends_with_the_command(hut: Shell, tmp_path: Path, number: int) -> None:
    """However that ends: it is good only while somebody waits there."""
    with hut.running_up(GATEWAY_ADAPTERS='["web","hut"]', GATEWAY_HUT_TOKEN="right") as gateway:
        gateway.says("Answer in the browser")
        with Tty(["approver", "link", "owner", "hut"], hut.env) as linking:
            code = linking.until(r"/hut me (\S+)")[1]
            linking.until("Waiting")
            linking.process.send_signal(number)
            linking.ended()
        assert "wrong, used or expired" in type_in_chat(tmp_path, f"U1 me {code}")


def test_it_goes_on_where_it_was_broken_off(hut: Shell, tmp_path: Path) -> None:
    """A kept token is not asked for again; the running gateway takes the chat in by itself."""
    with hut.running_up() as gateway:
        gateway.says("Answer in the browser")
        with Tty(["hut", "setup"], hut.env) as setup:
            setup.until("The token")
            setup.type("right")
            setup.until("✓ The gateway runs, and hut is connected")
        gateway.says("is ready")
        with Tty(["hut", "setup"], hut.env) as setup:
            code = setup.until(r"/hut here (\S+)")[1]
            setup.until("Waiting")
            setup.process.send_signal(signal.SIGINT)
            setup.until("The setup is not finished: run gateway hut setup to continue it")
            setup.until("gateway down ends it")
            assert setup.ended() == 130
            assert "wrong, used or expired" in type_in_chat(tmp_path, f"U1 here {code}")
        with Tty(["hut", "setup"], hut.env) as setup:
            code = setup.until(r"/hut here (\S+)")[1]
            assert "The token" not in setup.said and "Starting" not in setup.said
            type_in_chat(tmp_path, f"U1 here {code}")
            setup.until(r"\[y/N\]")
            setup.type("n")
            setup.until("Nothing was changed")
            assert setup.ended() == 1
        assert [one["name"] for one in policy_of(hut)["people"]] == ["owner"]  # type: ignore[attr-defined]
        hut.run("hut", "remove")
        gateway.says("is ready")
        assert "not set up" in hut.run("hut", "status")


def test_without_a_terminal_a_claim_waits_for_the_operator(hut: Shell, tmp_path: Path) -> None:
    """The token comes from the environment, and the yes by a command of its own."""
    said = hut.apart("hut", "setup", code=2)
    assert "set GATEWAY_HUT_TOKEN" in said
    said = hut.apart("hut", "setup", "--non-interactive", env={"GATEWAY_HUT_TOKEN": "right"})
    code = said.partition("/hut here ")[2].split()[0]
    assert hut.run("claims", "list").strip() == "no claims are pending"
    number = type_in_chat(tmp_path, f"U1 here {code}")
    listed = hut.run("claims", "list")
    assert number in listed and "U1" in listed and "#door of Hut" in listed
    (row,) = json.loads(hut.run("claims", "list", "--json"))
    assert (row["number"], row["identity"], row["target"]) == (number, "hut:U1", "hut:door")
    hut.run("claims", "approve", row["id"][:8])
    assert [one["name"] for one in policy_of(hut)["people"]] == ["owner", "ana-hut"]  # type: ignore[attr-defined]
    assert "this ID matches no claim" in hut.run("claims", "deny", row["id"][:8], code=8)


def test_a_person_adds_an_account(hut: Shell, tmp_path: Path) -> None:
    """With a code for them; an account that is somebody's stays theirs."""
    with hut.running_up(GATEWAY_ADAPTERS='["web","hut"]', GATEWAY_HUT_TOKEN="right") as gateway:
        gateway.says("Answer in the browser")
        with Tty(["approver", "link", "owner", "hut"], hut.env) as linking:
            code = linking.until(r"/hut me (\S+)")[1]
            type_in_chat(tmp_path, f"U1 me {code}")
            linking.until(r"wants to be owner")
            linking.until(r"\[y/N\]")
            linking.type("yes")
            assert linking.ended() == 0
        with Tty(["approver", "link", "owner", "hut"], hut.env) as linking:
            code = linking.until(r"/hut me (\S+)")[1]
            assert "already belongs to you" in type_in_chat(tmp_path, f"U1 me {code}")
        assert "no person ben" in hut.run("approver", "link", "ben", "hut", code=8)


def test_where_a_file_is_the_policy_the_lines_are_printed(hut: Shell, tmp_path: Path) -> None:
    """And nothing is changed."""
    file = tmp_path / "policy.toml"
    file.write_text(
        '[[people]]\nname = "owner"\nadmin = true\nidentities = ["token:owner"]\n'
        '[[routes]]\nname = "default"\napprovers = ["owner"]\ntargets = ["web"]\n'
    )
    env = {"GATEWAY_ADAPTERS": '["web","hut"]', "GATEWAY_HUT_TOKEN": "right"}
    with hut.running_up(**env, GATEWAY_POLICY_FILE=str(file)) as gateway:
        gateway.says("The gateway is ready")
        with Tty(["hut", "setup"], {**hut.env, **env}) as setup:
            gateway.says("The gateway is ready")  # once more, with what the set-up keeps
            code = setup.until(r"/hut here (\S+)")[1]
            type_in_chat(tmp_path, f"U1 here {code}")
            setup.until("The policy comes from a file")
            setup.until(r'identities = \[\.\.\., "hut:U1"\]')
            setup.until(r'targets = \[\.\.\., "hut:door"\]')
            assert setup.ended() == 1
        assert [one["name"] for one in policy_of(hut)["people"]] == ["owner"]  # type: ignore[attr-defined]


def test_what_is_kept_sets_nothing_but_the_chats_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever could write the file chooses no library and no policy."""
    monkeypatch.setattr(os, "environ", {"GATEWAY_DATA_DIR": str(tmp_path), "GATEWAY_HUT_NAME": "x"})
    other = {"LD_PRELOAD": "a.so", "GATEWAY_POLICY_FILE": "b.toml", "GATEWAY_SLACK_BOT_TOKEN": "c"}
    keep("hut", {"GATEWAY_HUT_TOKEN": "right", "GATEWAY_HUT_NAME": "y", **other})
    take_kept()
    assert os.environ["GATEWAY_HUT_TOKEN"] == "right" and os.environ["GATEWAY_HUT_NAME"] == "x"
    assert not other.keys() & os.environ.keys()
    keep("hut", {})
    take_kept()
    assert "GATEWAY_HUT_TOKEN" not in os.environ and "GATEWAY_ADAPTERS" not in os.environ


def test_a_gateway_goes_on_where_its_kept_settings_cannot_be_read(hut: Shell) -> None:
    """It warns, and takes them again once they can."""
    kept = Path(hut.env["GATEWAY_DATA_DIR"]) / FILE_NAME
    with hut.running_up() as gateway:
        gateway.says("ready")
        kept.write_text("{}")
        kept.chmod(0o644)
        gateway.says("not trusted")
        kept.unlink()
        write_private(kept, json.dumps({"hut": {"GATEWAY_HUT_TOKEN": "right"}}))
        gateway.says("ready")


def test_remove_forgets_every_token(hut: Shell) -> None:
    """Also where no gateway runs, and those of a set-up that was broken off."""
    folder = Path(hut.env["GATEWAY_DATA_DIR"])
    folder.mkdir(mode=0o700)
    for name in (FILE_NAME, "setup.json"):
        write_private(folder / name, json.dumps({"hut": {"GATEWAY_HUT_TOKEN": "right"}}))
    hut.run("hut", "remove", code=5)
    assert not any("right" in (folder / name).read_text() for name in (FILE_NAME, "setup.json"))
