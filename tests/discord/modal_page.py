"""Draws a Discord modal about as Discord does: the simulator shows messages only."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from discord import ui

_TEXT, _SELECT, _INPUT, _RADIO = 10, 3, 4, 21
_STYLE = """
body { margin: 0; font: 16px/1.4 sans-serif; background: #fff; color: #2e3338 }
body.dark { background: #313338; color: #dbdee1 }
main { padding: 16px } h1 { font-size: 20px; margin: 0 0 12px }
label { display: block; font-weight: 600; margin-top: 16px } small { display: block; opacity: .8 }
.field { border: 1px solid #8b949e; border-radius: 6px; padding: 8px; margin-top: 6px;
  white-space: pre-wrap; overflow-wrap: anywhere } .long { min-height: 60px }
pre { white-space: pre-wrap; overflow-wrap: anywhere; border: 1px solid #8b949e; padding: 6px }
.on { font-weight: 600 } footer { margin-top: 20px; text-align: right }
footer b { background: #5865f2; color: #fff; padding: 8px 16px; border-radius: 6px }
"""


def draw(modal: ui.Modal, *, dark: bool) -> str:
    """Return the modal as a page."""
    parts = "".join(map(_part, modal.to_dict()["components"]))
    look = "dark" if dark else "light"
    return (
        f"<!doctype html><meta charset='utf-8'><title>Slack</title><style>{_STYLE}</style>"
        f"<body class='{look}'><main><h1>{escape(modal.title)}</h1>{parts}"
        f"<footer>Cancel &nbsp; <b>Submit</b></footer></main>"
    )


def _part(part: Any) -> str:
    if part["type"] == _TEXT:
        return _markdown(part["content"])
    says = f"<small>{escape(part['description'])}</small>" if part.get("description") else ""
    one = part["component"]
    needed = " *" if one.get("required", True) else ""
    return f"<label>{escape(part['label'])}{needed}</label>{says}{_field(one)}"


def _field(one: Any) -> str:
    if one["type"] == _INPUT:
        long = " long" if one["style"] == 2 else ""
        return f"<div class='field{long}'>{escape(one.get('value') or '')}</div>"
    rows = [
        f"<div class='{'on' if item.get('default') else ''}'>{'◉' if item.get('default') else '○'} "
        f"{escape(item['label'])}<small>{escape(item.get('description') or '')}</small></div>"
        for item in one["options"]
    ]
    return f"<div class='field'>{''.join(rows)}</div>"


def _markdown(text: str) -> str:
    made = escape(text, quote=False)
    made = re.sub(r"```\w*\n(.*?)\n```", r"<pre>\1</pre>", made, flags=re.S)
    made = re.sub(r"^### (.*)$", r"<b>\1</b>", made, flags=re.M)
    made = re.sub(r"^-# (.*)$", r"<small>\1</small>", made, flags=re.M)
    made = re.sub(r"`([^`\n]+)`", r"<code>\1</code>", made)
    made = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", made)
    made = re.sub(r"\\([^\w\s])", r"\1", made)
    return f"<div>{made}</div>".replace("\n", "<br>")
