"""Turns what Slack would show (blocks of messages, modals, Home) into a page, for pictures."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import escape
from typing import Any

Json = dict[str, Any]

STYLE = """
:root { color-scheme: light; --ink:#1d1c1d; --dim:#616061; --line:#dddddd; --back:#ffffff;
  --code:#f8f8f8; --codeink:#1d1c1d;
  --named:#e01e5a; --namedback:#f8f8f8 }
@media (prefers-color-scheme: dark) { :root { color-scheme: dark; --ink:#d1d2d3; --dim:#ababad;
  --line:#3a3d41; --back:#1a1d21; --code:#222529; --codeink:#d1d2d3;
  --named:#e8912d; --namedback:#e8e8e80a } }
body { margin:0; padding:16px; background:var(--back); color:var(--ink);
  font:15px/1.46668 Lato,"Noto Sans","DejaVu Sans",sans-serif }
.message { display:flex; gap:8px; max-width:680px; margin-bottom:20px }
.face { width:36px; height:36px; border-radius:6px; background:#4a154b; color:#fff; flex:none;
  display:grid; place-items:center; font-weight:700 }
.body { min-width:0; flex:1 } .name { font-weight:900 } .app { font-size:10px; font-weight:700;
  background:var(--line); border-radius:2px; padding:1px 3px; margin-left:4px }
h3 { font-size:18px; margin:4px 0 8px; line-height:1.2 }
.section { margin:4px 0 8px; white-space:pre-wrap; overflow-wrap:anywhere }
.fields { display:grid; grid-template-columns:1fr 1fr; gap:8px; margin-bottom:8px }
.fields div { white-space:pre-wrap; overflow-wrap:anywhere }
.context { color:var(--dim); font-size:13px; margin:4px 0 8px; white-space:pre-wrap;
  overflow-wrap:anywhere }
.context span + span::before { content:"  "; white-space:pre }
pre { background:var(--code); color:var(--codeink); border:1px solid var(--line);
  border-radius:4px; padding:8px; margin:4px 0 8px; font:12px/1.5 "DejaVu Sans Mono",monospace;
  white-space:pre-wrap; overflow-wrap:anywhere }
blockquote { border-left:4px solid var(--line); margin:4px 0 8px; padding-left:12px;
  white-space:pre-wrap; overflow-wrap:anywhere }
code { background:var(--namedback); border:1px solid var(--line); border-radius:3px;
  padding:1px 3px; color:var(--named); font:12px "DejaVu Sans Mono",monospace }
.actions { display:flex; flex-wrap:wrap; gap:8px; margin:4px 0 8px }
button, .select { font:700 14px Lato,"Noto Sans","DejaVu Sans",sans-serif; padding:6px 12px;
  border-radius:4px; border:1px solid var(--line); background:var(--back); color:var(--ink) }
button.primary { background:#007a5a; color:#fff; border-color:#007a5a }
button.danger { background:#e01e5a; color:#fff; border-color:#e01e5a }
hr { border:0; border-top:1px solid var(--line); margin:12px 0 }
.mention { background:#e8f5fa; color:#1264a3; border-radius:3px; padding:0 2px }
@media (prefers-color-scheme: dark) { .mention { background:#1d3a4a; color:#6ab8e8 } }
.modal { max-width:520px; border:1px solid var(--line); border-radius:8px; margin-bottom:20px }
.modal > header, .modal > footer { padding:16px 20px; font-weight:900; font-size:20px;
  display:flex; justify-content:space-between } .modal > main { padding:0 20px }
.modal > footer { border-top:1px solid var(--line); justify-content:flex-end; gap:8px }
label { font-weight:700; display:block; margin-bottom:12px } label small { display:block;
  color:var(--dim); font-weight:400; font-size:13px } .input { border:1px solid var(--dim);
  border-radius:4px; padding:8px; font-weight:400; min-height:20px; white-space:pre-wrap;
  overflow-wrap:anywhere; margin-top:4px } .many { min-height:80px }
.choice { font-weight:400 } .choice small { display:inline; margin-left:6px }
.error { color:#e01e5a; font-size:13px; font-weight:400 }
.reply { margin-left:44px; max-width:636px }
"""


def page(*parts: str) -> str:
    """Return an HTML page of messages and modals."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Slack</title><style>{STYLE}</style></head><body>{''.join(parts)}</body></html>"
    )


def message(text: str, blocks: list[Json], *, reply: bool = False) -> str:
    """Return a message as a client shows it: blocks when there are any, else the text."""
    inner = "".join(map(block, blocks)) or f'<div class="section">{mrkdwn(text)}</div>'
    return (
        f'<div class="message{" reply" if reply else ""}"><div class="face">A</div>'
        '<div class="body"><span class="name">approvals</span>'
        f'<span class="app">APP</span>{inner}</div></div>'
    )


def modal(view: Json) -> str:
    """Return a modal, or a Home tab as a box without buttons below."""
    errors = view.get("errors", {})
    inner = "".join(block(one, errors) for one in view["blocks"])
    if view["type"] == "home":
        return f'<div class="modal"><header>Home</header><main>{inner}</main></div>'
    close = view.get("close", {"text": "Cancel"})["text"]
    foot = f"<button>{escape(close)}</button>"
    if "submit" in view:
        foot += f'<button class="primary">{escape(view["submit"]["text"])}</button>'
    title = escape(view["title"]["text"])
    return (
        f'<div class="modal"><header>{title}<span>&times;</span></header><main>{inner}</main>'
        f"<footer>{foot}</footer></div>"
    )


def block(one: Json, errors: Json | None = None) -> str:
    """Return one block."""
    kind = one["type"]
    if kind in ("header", "divider"):
        return f"<h3>{escape(one['text']['text'])}</h3>" if kind == "header" else "<hr>"
    if kind == "section":
        return _section(one)
    if kind == "context":
        spans = "".join(f"<span>{text(element)}</span>" for element in one["elements"])
        return f'<div class="context">{spans}</div>'
    if kind == "actions":
        return f'<div class="actions">{"".join(map(element, one["elements"]))}</div>'
    if kind == "input":
        return _input(one, errors or {})
    return "".join(map(_rich, one["elements"]))


def _section(one: Json) -> str:
    made = ""
    if "text" in one:
        made += f'<div class="section">{text(one["text"])}</div>'
    if "fields" in one:
        made += (
            f'<div class="fields">{"".join(f"<div>{text(f)}</div>" for f in one["fields"])}</div>'
        )
    if "accessory" in one:
        made += f'<div class="actions">{element(one["accessory"])}</div>'
    return made


def element(one: Json) -> str:
    """Return a button or a menu."""
    if one["type"] == "button":
        return f'<button class="{one.get("style", "")}">{escape(one["text"]["text"])}</button>'
    return _field(one)


def _input(one: Json, errors: Json) -> str:
    optional = " (optional)" if one.get("optional") else ""
    hint = f"<small>{escape(one['hint']['text'])}</small>" if "hint" in one else ""
    wrong = str(errors.get(one.get("block_id", ""), ""))
    error = f'<div class="error">{escape(wrong)}</div>' if wrong else ""
    label = escape(one["label"]["text"])
    return f"<label>{label}{optional}{_field(one['element'])}{hint}{error}</label>"


def _field(one: Json) -> str:
    kind = one["type"]
    if kind in ("plain_text_input", "number_input"):
        placeholder = one.get("placeholder", {}).get("text", "")
        many = " many" if one.get("multiline") else ""
        return f'<div class="input{many}">{escape(one.get("initial_value", placeholder))}</div>'
    if kind in ("radio_buttons", "checkboxes"):
        chosen = [one.get("initial_option"), *one.get("initial_options", [])]
        signs = ("◉", "○") if kind == "radio_buttons" else ("☑", "☐")
        return "".join(
            f'<div class="choice">{signs[0] if o in chosen else signs[1]} {text(o["text"])}'
            f"<small>{text(o['description']) if 'description' in o else ''}</small></div>"
            for o in one["options"]
        )
    shown = one.get("initial_option") or {"text": one.get("placeholder", {"text": "…"})}
    label = "⋯" if kind == "overflow" else f"{escape(shown['text']['text'])} ▾"
    return f'<div><span class="select">{label}</span></div>'


def _rich(part: Json) -> str:
    inner = "".join(map(_rich_element, part["elements"]))
    tags = {"rich_text_preformatted": "pre", "rich_text_quote": "blockquote"}
    if part["type"] == "rich_text_section":
        return f'<div class="section">{inner}</div>'
    tag = tags.get(part["type"], "ul")
    return f"<{tag}>{inner}</{tag}>"


def _rich_element(one: Json) -> str:
    if one["type"] == "rich_text_section":
        return f"<li>{''.join(map(_rich_element, one['elements']))}</li>"
    if one["type"] == "user":
        return f'<span class="mention">@{escape(one["user_id"])}</span>'
    if one["type"] == "date":
        return escape(_moment(str(one["timestamp"]), one["format"]))
    shown = escape(str(one.get("text", one.get("url", ""))))
    style = one.get("style", {})
    for name, tag in (("bold", "b"), ("italic", "i"), ("code", "code"), ("strike", "s")):
        if style.get(name):
            shown = f"<{tag}>{shown}</{tag}>"
    return shown


def text(value: Json) -> str:
    """Return a text object."""
    return escape(value["text"]) if value["type"] == "plain_text" else mrkdwn(value["text"])


def mrkdwn(source: str) -> str:
    """Return mrkdwn: what Slack acts on is acted on, so that what is not inert can be seen."""
    made = escape(source.replace("&lt;", "\x01").replace("&gt;", "\x02").replace("&amp;", "&"))
    made = re.sub(r"&lt;(?:@|!subteam\^)([A-Z0-9]+)&gt;", r'<span class="mention">@\1</span>', made)
    made = re.sub(r"&lt;!(channel|here|everyone)&gt;", r'<span class="mention">@\1</span>', made)
    made = re.sub(
        r"&lt;!date\^(\d+)\^([^|^]+)\|[^&]*&gt;", lambda found: _moment(found[1], found[2]), made
    )
    made = re.sub(r"&lt;(https?://[^|&]+)\|([^&]+)&gt;", r'<a href="\1">\2</a>', made)
    for sign, tag in (("*", "b"), ("_", "i"), ("~", "s"), ("`", "code")):
        mark = re.escape(sign)
        made = re.sub(
            rf"(?<!\w){mark}(?=\S)([^\n{mark}]+){mark}(?!\w)", rf"<{tag}>\1</{tag}>", made
        )
    return made.replace("\x01", "&lt;").replace("\x02", "&gt;")


def _moment(stamp: str, form: str) -> str:
    moment = datetime.fromtimestamp(int(stamp), UTC)
    made = form.replace("{date_short_pretty}", f"{moment:%b %-d}").replace("{date_pretty}", "today")
    return made.replace("{time}", f"{moment:%-I:%M %p}").replace("{time_secs}", f"{moment:%T}")
