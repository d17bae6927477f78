"""Someone at a Slack client: acts only on what is really shown to them, as the client would."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.slack.counterpart import views
from tests.slack.counterpart.blocks import elements_of, units
from tests.slack.counterpart.deliveries import Ack, Deliveries
from tests.slack.counterpart.payloads import Payloads
from tests.slack.counterpart.state import Channel, Json, Message, State, User, View, Workspace


class NotShown(AssertionError):
    """The person looked for something that is not on their screen."""


@dataclass
class Human:
    """One member at one client. `toasts` are the client's own complaints to them."""

    state: State
    workspace: Workspace
    user: User
    deliveries: Deliveries
    confirms: bool = True
    confirmed: list[Json] = field(default_factory=list)
    toasts: list[str] = field(default_factory=list)

    @property
    def payloads(self) -> Payloads:
        """How this client words what the person does."""
        return Payloads(self.state, self.workspace, self.user)

    # What is on the screen

    def sees(self, message: Message) -> Channel:
        """Return the channel in which the person sees the message."""
        for channel in self.workspace.channels.values():
            if channel.messages.get(message.ts) is message and self.user.id in channel.members:
                return channel
        raise NotShown(f"{self.user.id} does not see message {message.ts}")

    def buttons(self, blocks: list[Json]) -> list[tuple[Json, Json]]:
        """Return the (block, element) pairs of the buttons that this person sees."""
        return [
            (block, element)
            for block in blocks
            for element in elements_of(block)
            if element["type"] == "button" and self._visible(element)
        ]

    def _visible(self, element: Json) -> bool:
        only = element.get("visible_to_user_ids")
        return only is None or self.user.id in only

    def private(self) -> list[str]:
        """Return the texts of the ephemeral messages that the person got."""
        mine = [body for _, user, body in self.workspace.ephemerals if user == self.user.id]
        return [str(body.get("text") or "") for body in mine]

    def told_more_than(self, times: int) -> bool:
        """Whether the person got more ephemeral messages than so many."""
        return len(self.private()) > times

    @property
    def modal(self) -> View:
        """The modal in front."""
        mine = [view for view in self.workspace.views.values() if view.user == self.user.id]
        if not mine:
            raise NotShown(f"{self.user.id} has no modal open")
        return mine[-1]

    @property
    def has_modal(self) -> bool:
        """Whether a modal is open."""
        return any(view.user == self.user.id for view in self.workspace.views.values())

    @property
    def home(self) -> Json:
        """The Home tab as published for this person."""
        if self.user.id not in self.workspace.homes:
            raise NotShown(f"{self.user.id} has an empty Home tab")
        return self.workspace.homes[self.user.id].view

    # What the person does

    async def click(self, message: Message, label: str) -> Ack:
        """Click a button of a message by its label."""
        channel = self.sees(message)
        block, button = self._button(message.blocks, label)
        return await self._act(self.payloads.on_message(channel.id, message, block, button))

    async def choose(self, message: Message, label: str) -> Ack:
        """Choose an entry of a message's menu by its label."""
        channel = self.sees(message)
        menus = [
            (block, element)
            for block in message.blocks
            for element in elements_of(block)
            if element["type"] == "overflow"
        ]
        for block, menu in menus:
            for option in menu["options"]:
                if option["text"]["text"] == label:
                    payloads = self.payloads
                    return await self._act(
                        payloads.on_message(channel.id, message, block, menu, option)
                    )
        raise NotShown(f"no menu entry {label!r}")

    async def more(self, message: Message, label: str) -> Ack:
        """Press "More…" on a message, then what stands behind it."""
        await self.click(message, "More…")
        await self.state.until(
            lambda: self.has_modal and label in self._labels(self.modal.view["blocks"])
        )
        return await self.click_modal(label)

    def _labels(self, blocks: list[Json]) -> list[str]:
        return [element["text"]["text"] for _, element in self.buttons(blocks)]

    async def shortcut(self, message: Message, callback: str) -> Ack:
        """Use a shortcut of the app from a message's menu."""
        channel = self.sees(message)
        return await self._act(self.payloads.on_shortcut(channel.id, message, callback))

    async def click_home(self, label: str, number: int = 0) -> Ack:
        """Click the n-th button with this label in the Home tab."""
        view = self.workspace.homes[self.user.id]
        block, button = self._button(view.view["blocks"], label, number)
        return await self._act(self.payloads.on_view(view, block, button))

    async def click_modal(self, label: str) -> Ack:
        """Click a button inside the open modal."""
        view = self.modal
        block, button = self._button(view.view["blocks"], label)
        return await self._act(self.payloads.on_view(view, block, button))

    def _button(self, blocks: list[Json], label: str, number: int = 0) -> tuple[Json, Json]:
        seen = self.buttons(blocks)
        fitting = [pair for pair in seen if pair[1]["text"]["text"] == label]
        if len(fitting) <= number:
            labels = [element["text"]["text"] for _, element in seen]
            raise NotShown(f"no button {label!r}; there are {labels}")
        block, button = fitting[number]
        if "confirm" in button:
            self.confirmed.append(button["confirm"])
            if not self.confirms:
                raise NotShown("the person backed out of the confirmation")
        return block, button

    async def _act(self, payload: Json) -> Ack:
        ack = await self.deliveries.interaction(payload)
        if not ack.ok:
            self.toasts.append("This app did not respond in time.")
        return ack

    def fill(self, label: str, value: Any) -> None:
        """Fill a field of the modal by its label, as far as the client lets one."""
        view = self.modal
        for block in view.view["blocks"]:
            if block["type"] == "input" and block["label"]["text"] == label:
                element = block["element"]
                view.state.setdefault(block["block_id"], {})[element["action_id"]] = _entered(
                    element, value
                )
                return
        labels = [b["label"]["text"] for b in view.view["blocks"] if b["type"] == "input"]
        raise NotShown(f"no field {label!r}; there are {labels}")

    async def submit(self) -> Ack:
        """Press the modal's submit button."""
        view = self.modal
        if "submit" not in view.view:
            raise NotShown("the modal has no submit button")
        for block in view.view["blocks"]:
            self._complete(view, block)
        ack = await self._act(self.payloads.submission(view))
        if ack.ok:
            self._follow(view, ack.payload)
        return ack

    def _complete(self, view: View, block: Json) -> None:
        """Add what was there from the start; the client asks for required fields."""
        if block["type"] != "input":
            return
        element = block["element"]
        values = view.state.setdefault(block["block_id"], {})
        values.setdefault(element["action_id"], _initial(element))
        empty = _is_empty(values[element["action_id"]])
        if empty and not block.get("optional"):
            raise NotShown(f"the client wants {block['label']['text']!r} filled in")

    def _follow(self, view: View, answer: Json) -> None:
        action = answer.get("response_action")
        if action == "errors":
            view.view = {**view.view, "errors": answer["errors"]}
        elif action in ("update", "push"):
            content = views.checked_view(answer["view"], "modal")
            if action == "update":
                views.replaced(self.state, view, content, None)
            else:
                views.placed(self.state, self.workspace, self.user.id, content, view)
        elif action == "clear":
            self._close_all()
        elif self.workspace.views.pop(view.id, None) is not None:
            self.state.ring()

    def _close_all(self) -> None:
        for name in [v.id for v in self.workspace.views.values() if v.user == self.user.id]:
            del self.workspace.views[name]
        self.state.ring()

    async def close(self) -> Ack | None:
        """Close the modal in front."""
        view = self.modal
        del self.workspace.views[view.id]
        self.state.ring()
        if not view.view.get("notify_on_close"):
            return None
        return await self._act(self.payloads.closed(view))

    async def slash(self, command: str, text: str, channel: str) -> Ack:
        """Type a slash command in a channel or a direct message."""
        ack = await self.deliveries.command(self.payloads.command(command, text, channel))
        if not ack.ok:
            self.toasts.append(f"{command} failed because the app did not respond")
        elif ack.payload:
            self.workspace.ephemerals.append((channel, self.user.id, ack.payload))
            self.state.ring()
        return ack

    async def open_home(self) -> Ack:
        """Open the app's Home tab."""
        event = {"type": "app_home_opened", "user": self.user.id, "tab": "home", "channel": "D1"}
        return await self.deliveries.event(self.workspace, event)


def _entered(element: Json, value: Any) -> Json:
    kind = element["type"]
    if kind == "plain_text_input":
        if units(value) > element.get("max_length", 3000):
            raise NotShown("the client does not let one type more")
        return {"type": kind, "value": value or None}
    if kind == "number_input":
        return {"type": kind, "value": str(value)}
    wanted = value if isinstance(value, list) else [value]
    chosen = [one for one in element["options"] if one["text"]["text"] in wanted]
    if len(chosen) != len(wanted):
        raise NotShown(f"no option {value!r}")
    if kind in ("checkboxes", "multi_static_select"):
        return {"type": kind, "selected_options": chosen}
    return {"type": kind, "selected_option": chosen[0]}


def _initial(element: Json) -> Json:
    kind = element["type"]
    if kind in ("plain_text_input", "number_input"):
        return {"type": kind, "value": element.get("initial_value")}
    if kind in ("checkboxes", "multi_static_select"):
        return {"type": kind, "selected_options": element.get("initial_options", [])}
    return {"type": kind, "selected_option": element.get("initial_option")}


def _is_empty(entered: Json) -> bool:
    return not (
        entered.get("value") or entered.get("selected_option") or entered.get("selected_options")
    )
