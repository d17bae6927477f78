"""What the adapters send fits the platforms' own types and builders, made by others.

slack_sdk's models are always there. The types and discord.js's builders come from npm: those tests
run in `make test-payloads` alone, and need no network once that has installed them.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from slack_sdk.models.blocks import Block
from slack_sdk.models.views import View

from adapters.discord.commands import DEFINITIONS
from adapters.slack.installation import build_manifest
from tests.discord import scenes
from tests.discord.limits import V2
from tests.slack import states

Json = dict[str, Any]
MODULES = os.environ.get("PAYLOADS")
TEXT_FIELD = 4
from_npm = pytest.mark.skipif(MODULES is None, reason="runs in `make test-payloads`")

# A view's blocks may be anything, by its type; here they are only what Slack knows.
TYPES = """\
import type { HomeView, KnownBlock, ModalView } from "@slack/types";
import type { Manifest } from "MODULES/@slack/web-api/dist/types/request/manifest.js";
import type {
  APIModalInteractionResponseCallbackData,
  RESTPostAPIApplicationCommandsJSONBody,
  RESTPostAPIChannelMessageJSONBody,
} from "discord-api-types/v10";
type Message = { text: string; blocks: KnownBlock[] };
type Known<V> = V extends HomeView | ModalView ? Omit<V, "blocks"> & { blocks: KnownBlock[] } : V;
type View = Known<HomeView> | Known<ModalView>;
"""
OPTIONS = {
    "strict": True,
    "noEmit": True,
    "module": "nodenext",
    "target": "es2023",
    "skipLibCheck": True,
    "types": [],
}
# A builder checks what is set, and what is missing when it is built; what it is given at once it
# takes as it is. So everything is set again, part by part, and nothing may be lost on the way.
BUILDS = """\
const { isDeepStrictEqual } = require("node:util");
const discord = require("@discordjs/builders");
const OPTIONS = {
  3: discord.StringSelectMenuOptionBuilder,
  21: discord.RadioGroupOptionBuilder,
  22: discord.CheckboxGroupOptionBuilder,
};
let set = 0;

function setAgain(builder, data) {
  for (const [key, value] of Object.entries(data)) {
    const words = key.split("_").map((word) => word[0].toUpperCase() + word.slice(1)).join("");
    const setter = builder[`set${words === "Url" ? "URL" : words}`];
    if (!setter || value === null || typeof value === "object") continue;
    setter.call(builder, value);
    set += 1;
  }
}

function check(part) {
  setAgain(discord.createComponentBuilder({ ...part }), part);
  for (const one of part.options ?? []) setAgain(new OPTIONS[part.type](), one);
  [...(part.components ?? []), part.component, part.accessory].filter(Boolean).forEach(check);
}

function build(body) {
  body.components.forEach(check);
  if (!("custom_id" in body)) {
    const built = body.components.map((one) => discord.createComponentBuilder(one).toJSON());
    return { ...body, components: built };
  }
  setAgain(new discord.ModalBuilder(), body);
  return new discord.ModalBuilder(body).toJSON();
}

const wrong = {};
for (const [name, body] of Object.entries(JSON.parse(require("node:fs").readFileSync(0)))) {
  try {
    const built = JSON.parse(JSON.stringify(build(body)));
    if (!isDeepStrictEqual(built, body)) wrong[name] = JSON.stringify(built);
  } catch (error) {
    wrong[name] = String(error.stack);
  }
}
console.log(JSON.stringify({ set, wrong }));
"""


@cache
def slack_messages() -> dict[str, Json]:
    """Return every card, and every private reply."""
    made = states.messages() | {f"reply-{name}": one for name, one in states.replies().items()}
    return {name: {"text": text, "blocks": blocks} for name, (text, blocks) in made.items()}


@cache
def discord_messages() -> dict[str, Json]:
    """Return every message, as it is posted."""
    views: dict[str, Any] = {name: make().view for name, make in scenes.messages().items()}
    return {name: {"flags": V2, "components": view.to_components()} for name, view in views.items()}


@cache
def discord_modals() -> dict[str, Json]:
    """Return every modal, less the empty label that discord.py sends with each text field, which
    has its label around it."""
    made = {name: modal.to_dict() for name, modal in scenes.modals().items()}
    for modal in made.values():
        for one in modal["components"]:
            field = one.get("component", {})
            if field.get("type") == TEXT_FIELD and field["label"] is None:
                del field["label"]
    return made


def all_typed() -> dict[str, Mapping[str, Json]]:
    """Return what is sent, by its type."""
    manifests = {
        "socket": build_manifest(),
        "http": build_manifest("https://approvals.example"),
        "org": build_manifest("https://approvals.example", org=True),
    }
    return {
        "Message": slack_messages(),
        "View": states.views(),
        "Manifest": manifests,
        "RESTPostAPIChannelMessageJSONBody": discord_messages(),
        "APIModalInteractionResponseCallbackData": discord_modals(),
        "RESTPostAPIApplicationCommandsJSONBody": {str(one["name"]): one for one in DEFINITIONS},
    }


def compiled(folder: Path, modules: Path, typed: Mapping[str, Mapping[str, Json]]) -> str:
    """Compile literals of these types; return what is wrong, by the line of each."""
    (folder / "node_modules").symlink_to(modules)
    lines = [
        f"export const {kind}_{name.replace('-', '_')}: {kind} = {json.dumps(body)};"
        for kind, bodies in typed.items()
        for name, body in bodies.items()
    ]
    text = TYPES.replace("MODULES", str(modules)) + "\n".join(lines)
    (folder / "payloads.ts").write_text(text, encoding="utf-8")
    config = {"compilerOptions": OPTIONS, "files": ["payloads.ts"]}
    (folder / "tsconfig.json").write_text(json.dumps(config), encoding="utf-8")
    return run(modules, ".bin/tsc", "--pretty", "false", folder=folder)


def run(modules: Path, script: str, *options: str, folder: Path, text: str = "") -> str:
    """Run a script with the node that was installed, and return what it prints."""
    done = subprocess.run(
        [modules / ".bin/node", modules / script, *options],
        cwd=folder, input=text, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def built(folder: Path, modules: Path, bodies: Mapping[str, Json]) -> Json:
    """Have discord.js build these; return what is `wrong`, by name, and how much was `set`."""
    (folder / "node_modules").symlink_to(modules)
    script = folder / "builds.cjs"
    script.write_text(BUILDS, encoding="utf-8")
    found: Json = json.loads(run(modules, str(script), folder=folder, text=json.dumps(bodies)))
    return found


@pytest.mark.parametrize("name", slack_messages())
def test_slacks_models_keep_each_block_of_a_card(name: str) -> None:
    """They know its type, lose none of it, and find nothing to complain of."""
    for made in slack_messages()[name]["blocks"]:
        check_block(made)


@pytest.mark.parametrize("name", states.views())
def test_slacks_models_keep_each_view(name: str) -> None:
    """As those of a card, and the frame of the modal."""
    view = states.views()[name]
    View(**view).validate_json()
    for made in view["blocks"]:
        check_block(made)


def check_block(made: Json) -> None:
    """Check that a block survives the SDK's models."""
    parsed = Block.parse(made)
    assert parsed is not None and type(parsed) is not Block, made
    parsed.validate_json()
    assert parsed.to_dict() == made


@from_npm
def test_all_of_it_has_the_platforms_types(tmp_path: Path) -> None:
    """Cards, modals, commands and the app's manifest."""
    assert compiled(tmp_path, Path(str(MODULES)).resolve(), all_typed()) == ""


@from_npm
def test_the_types_refuse_what_is_none(tmp_path: Path) -> None:
    """An unknown member and a wrong one: each is found, so that silence means something."""
    row: Json = {"type": 1, "components": [{"type": 2, "style": 9, "label": "a", "custom_id": "b"}]}
    button = {"type": "button", "action_id": "a", "text": {"type": "mrkdwn", "text": "b"}}
    wrong: dict[str, Mapping[str, Json]] = {
        "Message": {"a": {"text": "", "blocks": [{"type": "actions", "elements": [button]}]}},
        "View": {"a": {"type": "home", "blocks": [{"type": "unheard_of"}]}},
        "Manifest": {"a": {"display_information": {}}},
        "RESTPostAPIChannelMessageJSONBody": {"a": {"flags": V2, "components": [row]}},
        "APIModalInteractionResponseCallbackData": {"a": {"custom_id": "a", "components": []}},
        "RESTPostAPIApplicationCommandsJSONBody": {"a": {"name": "a", "description": 3}},
    }
    told = compiled(tmp_path, Path(str(MODULES)).resolve(), wrong)
    first = TYPES.count("\n") + 1
    for number, kind in enumerate(wrong):
        assert f"payloads.ts({first + number}," in told, (kind, told)


@from_npm
def test_the_builders_of_discord_js_take_all_of_it(tmp_path: Path) -> None:
    """They check lengths and numbers, which types cannot."""
    bodies = {f"message {name}": body for name, body in discord_messages().items()}
    bodies |= {f"modal {name}": body for name, body in discord_modals().items()}
    found = built(tmp_path, Path(str(MODULES)).resolve(), bodies)
    assert found["wrong"] == {}
    assert found["set"] > 10 * len(bodies)


@from_npm
def test_the_builders_refuse_what_is_too_long(tmp_path: Path) -> None:
    """In a message, in a modal, in an option: so that silence means something."""
    button = {"type": 2, "style": 1, "label": "a" * 81, "custom_id": "b"}
    option = {"label": "a" * 101, "value": "b"}
    choice = {"type": 3, "custom_id": "a", "options": [option]}
    bodies: dict[str, Json] = {
        "button": {"components": [{"type": 1, "components": [button]}]},
        "title": {"custom_id": "a", "title": "a" * 46, "components": []},
        "option": {"components": [{"type": 1, "components": [choice]}]},
    }
    found = built(tmp_path, Path(str(MODULES)).resolve(), bodies)
    assert set(found["wrong"]) == set(bodies)
