"""Calls that real tools send, with honest values, and the toy hosts that fit each."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = "/srv/app"
PROSE = "The build of this afternoon is green again, all is well."


@dataclass(frozen=True, slots=True)
class BaseCall:
    """One call as a tool sends it, and which toy hosts take it as that tool does."""

    tool: str
    kind: str
    arguments: dict[str, Any]
    hosts: tuple[str, ...]

    @property
    def name(self) -> str:
        """How a report names it."""
        return f"{self.tool}({', '.join(self.arguments)})"


_C, _F, _T = "command", "file_change", "tool"
_STRING = ("shell", "login shell", "HTML-decoding shell", "argv")
_LIST = ("shell per element", "join by space", "shell", "HTML-decoding shell")
_ARGV = ("argv", "join by space")  # no tool of the table takes a list there for several commands
_READS = ("reader", "percent-decoding reader")
_SRC = f"{FOLDER}/src/a.py"
_BEGIN = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-a\n+b\n*** End Patch"
_DIFF = "--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-marker-of-srv/app/src/a.py\n+b\n"
_GIT = f"diff --git a/src/a.py b/src/a.py\n{_DIFF}"
_HUNK = "@@ -1 +1 @@\n-a\n+b\n"

_ROWS: tuple[tuple[str, str, dict[str, Any], tuple[str, ...]], ...] = (
    ("Bash", _C, {"command": "git status", "description": "Look", "timeout": 5}, _STRING),
    ("Bash", _C, {"command": "cat a.txt"}, _STRING),
    ("Bash", _C, {"command": "grep -n x src/a.py"}, _STRING),
    ("Bash", _C, {"command": "ls src", "run_in_background": False}, _STRING),
    ("bash", _C, {"command": "pytest tests -q", "workdir": FOLDER}, _STRING),
    ("Monitor", _C, {"command": "tail -n 5 a.txt", "persistent": False}, _STRING),
    ("shell", _C, {"command": ["bash", "-lc", "ls src"]}, ("login shell",)),
    ("shell", _C, {"command": ["bash", "-lc", "git log -n 3"], "workdir": FOLDER}, ("argv",)),
    ("shell", _C, {"command": ["ls", "src"]}, _ARGV),
    ("shell", _C, {"argv": ["cat", "a.txt"]}, ("argv", "shell")),
    ("shell_command", _C, {"command": "wc -l a.txt", "workdir": FOLDER, "login": False}, _STRING),
    ("exec_command", _C, {"cmd": "head -n 3 a.txt", "workdir": FOLDER}, _STRING),
    ("exec_command", _C, {"cmd": "ls", "shell": "bash", "tty": False}, _STRING),
    ("write_stdin", _C, {"session_id": 1, "chars": "y\n"}, ("session",)),
    ("terminal", _C, {"commands": ["ls", "ls src"]}, _LIST),
    ("terminal", _C, {"commands": "ls src"}, _STRING),
    ("shell", _C, {"command": ["ls"], "env": {}, "user": "kim"}, ("argv",)),
    ("local_shell", _C, {"command": ["cat", "a.txt"], "working_directory": FOLDER}, ("argv",)),
    ("execute_bash", _C, {"command": "ls", "is_input": "false"}, _STRING),
    ("developer__shell", _C, {"command": "cat a.txt"}, _STRING),
    ("run_shell_command", _C, {"command": "ls src", "dir_path": FOLDER}, _STRING),
    ("run_terminal_cmd", _C, {"command": "ls", "explanation": "Look"}, _STRING),
    ("execute_command", _C, {"command": "cat a.txt", "requires_approval": "false"}, _STRING),
    ("execute_command", _C, {"command": "git diff --stat", "cwd": FOLDER}, _STRING),
    ("exec", _C, {"command": "ls src", "working_dir": FOLDER}, _STRING),
    ("shell", _C, {"command": "ls", "host": "prod"}, _STRING),
    ("shell", _C, {"command": "ls", "timeout": 5, "env": {}}, _STRING),
    ("shell", _C, {"cmd": "find . -name a.py", "justification": "Look"}, _STRING),
    ("npm", _T, {"command": "ls"}, ("shell", "argv")),
    ("redis", _C, {"command": "echo a"}, ("shell", "code")),
    ("tmux", _C, {"command": "ls"}, ("code",)),
    ("ipython", _C, {"code": "print(1)"}, ("code",)),
    ("python_repl", _C, {"query": "print(1)"}, ("code",)),
    ("automation_script", _C, {"language": "shell", "script": "ls"}, ("code",)),
    ("REPL", _C, {"code": "1 + 1", "description": "Add"}, ("code",)),
    ("Edit", _F, {"file_path": _SRC, "old_string": "a", "new_string": "b"}, ("writer",)),
    ("Edit", _F, {"file_path": _SRC, "old_string": "a", "new_string": "b", "replace_all": True},
     ("writer",)),
    ("MultiEdit", _F, {"file_path": _SRC, "edits": [{"old_string": "a", "new_string": "b"}]},
     ("writer",)),
    ("Write", _F, {"file_path": f"{FOLDER}/src/new.py", "content": PROSE}, ("writer",)),
    ("NotebookEdit", _F, {"notebook_path": f"{FOLDER}/a.ipynb", "new_source": "x"}, ("writer",)),
    ("replace", _F, {"file_path": _SRC, "instruction": PROSE, "old_string": "a",
     "new_string": "b"}, ("writer",)),
    ("write_to_file", _F, {"path": "docs/a.md", "content": PROSE}, ("writer",)),
    ("search_and_replace", _F, {"path": "docs/a.md", "search": "a", "replace": "b"}, ("writer",)),
    ("edit_file", _F, {"target_file": _SRC, "instructions": PROSE, "code_edit": "b"}, ("writer",)),
    ("edit_file", _F, {"path": _SRC, "edits": [{"oldText": "a", "newText": "b"}], "dryRun": False},
     ("writer",)),
    ("write_file", _F, {"file_path": "docs/a.md", "text": PROSE, "append": False}, ("writer",)),
    ("FileWriterTool", _F, {"directory": "docs", "filename": "a.md", "content": PROSE},
     ("joined writer",)),
    ("delete_file", _F, {"target_file": _SRC}, ("deleter",)),
    ("move_file", _F, {"source_path": "a.txt", "destination_path": "c.txt"}, ("mover",)),
    ("copy_file", _F, {"source_path": "a.txt", "destination_path": "c.txt"}, ("copier",)),
    ("create_link", _F, {"source": "a.txt", "target": "c.txt"}, ("linker",)),
    ("rename_file", _F, {"path": "a.txt", "new_path": "c.txt"}, ("mover", "copier")),
    ("str_replace_editor", _F, {"command": "str_replace", "path": _SRC, "old_str": "a",
     "new_str": "b"}, ("editor",)),
    ("text_editor", _F, {"command": "view", "path": _SRC}, ("editor",)),
    ("apply_patch", _F, {"input": _BEGIN}, ("begin-patch", "patch beside a path")),
    ("apply_patch", _F, {"patch": _DIFF}, ("git patch", "patch(1)")),
    ("apply_patch", _F, {"patchText": _GIT}, ("git patch", "patch(1)", "begin-patch")),
    ("apply_patch", _F, {"type": "update_file", "path": _SRC, "diff": _HUNK},
     ("patch beside a path",)),
    ("apply_diff", _F, {"path": _SRC, "diff": _HUNK}, ("patch beside a path",)),
    ("patch_many", _F, {"patches": '[{"path": "src/a.py", "patch": "x"}]'},
     ("patch beside a path",)),
    ("Read", _T, {"file_path": _SRC, "offset": 1, "limit": 5}, _READS),
    ("read_file", _T, {"path": "src/a.py"}, _READS),
    ("read_multiple_files", _T, {"paths": ["src/a.py", "src/b.py"]}, _READS),
    ("view_image", _T, {"path": "docs/a.md"}, _READS),
    ("list_directory", _T, {"dir_path": "src"}, ("looker",)),
    ("Glob", _T, {"pattern": "src/*.py", "path": FOLDER}, ("looker",)),
    ("Grep", _T, {"pattern": "a", "path": "src", "glob": "*.py"}, ("looker",)),
    ("read_many_files", _T, {"include": ["src/a.py"], "exclude": []}, ("reader", "looker")),
    ("ReadMcpResource", _T, {"server": "a", "uri": "docs://a"}, ("doer", "reader")),
    ("WebFetch", _T, {"url": "https://example.com/a", "prompt": PROSE}, ("fetcher",)),
    ("fetch", _T, {"url": "https://example.com/a", "max_length": 5}, ("fetcher",)),
    ("requests_post", _T, {"text": '{"url": "https://example.com/a", "data": {}}'}, ("fetcher",)),
    ("Task", _T, {"prompt": PROSE, "description": "Look", "subagent_type": "x"}, ("doer",)),
    ("SendMessage", _T, {"to": "agent-2", "message": PROSE}, ("doer",)),
    ("CronCreate", _T, {"cron": "0 * * * *", "prompt": PROSE}, ("doer",)),
    ("save_memory", _T, {"fact": PROSE}, ("doer",)),
    ("TodoWrite", _T, {"todos": [{"content": "a", "status": "pending"}]}, ("keeper",)),
    ("update_plan", _T, {"plan": [{"step": "a", "status": "pending"}]}, ("keeper",)),
    ("use_mcp_tool", _T, {"server_name": "a", "tool_name": "b", "arguments": '{"n": 1}'},
     ("dispatcher",)),
    ("parallel", _T, {"tool_uses": [{"recipient_name": "a", "parameters": {"n": 1}}]},
     ("dispatcher",)),
    ("sql_db_query", _T, {"query": "select 1"}, ("sqlite",)),
    ("cypher", _T, {"cypher": "match n return n"}, ("doer", "sqlite")),
    ("evaluate", _T, {"script": "1"}, ("code",)),
    ("browser_action", _T, {"action": "type", "text": PROSE}, ("doer",)),
    ("computer", _T, {"action": "key", "keys": "a"}, ("doer",)),
    ("post_message", _T, {"channel": "#ops", "text": PROSE}, ("messenger",)),
    ("post_message", _T, {"channel": "#ops", "text": PROSE, "thread_ts": "1.2"}, ("messenger",)),
    ("send_email", _T, {"to": "kim@example.org", "subject": "Hi", "body": PROSE}, ("messenger",)),
    ("create_issue", _T, {"owner": "a", "repo": "a/b", "title": "x y", "body": PROSE},
     ("messenger",)),
    ("add_issue_comment", _T, {"repo": "a/b", "issue_number": 5, "body": PROSE}, ("messenger",)),
    ("git_commit", _T, {"repo_path": FOLDER, "message": PROSE}, ("doer",)),
    ("merge_pull_request", _T, {"owner": "a", "repo": "b", "number": 5}, ("doer",)),
    ("get_weather", _T, {"city": "Oslo"}, ("doer",)),
    ("refund", _T, {"order": "A-1", "amount": 5}, ("doer",)),
    ("apply_manifest", _T, {"manifest": "kind: Pod", "namespace": "x"}, ("doer",)),
)  # fmt: skip

BASE_CALLS = tuple(BaseCall(*row) for row in _ROWS)

# What each role means to whom: honest values by type, and the hosts that fit.
_HONEST: dict[str, Any] = {
    "command": "git status", "commands": ["ls", "ls src"], "argv": ["ls", "src"],
    "working_folder": FOLDER, "folder": "src", "read": _SRC, "write": _SRC, "delete": _SRC,
    "path": _SRC, "destination": f"{FOLDER}/c.txt", "glob": "*.py", "url": "https://example.com/a",
    "host": "a", "environment": {}, "user": "kim", "action": PROSE, "input": "y", "patch": _BEGIN,
    "data": PROSE, "remark": PROSE, "nested": {"n": 1}, "recipient": "#ops", "amount": 5,
    "id": "A-1",
}  # fmt: skip
_BY_TYPE: dict[str, Any] = {
    "text": "a", "number": 5, "boolean": False, "list": [], "object": {}, "any": "a",
}  # fmt: skip
_TYPES = {"text": str, "number": int, "boolean": bool, "list": list, "object": dict}
_FITTING: dict[str, tuple[str, ...]] = {
    "command": _STRING, "commands": _LIST, "argv": ("argv",), "input": ("session",),
    "action": ("code", "doer"), "nested": ("dispatcher",), "url": ("fetcher",),
    "patch": ("begin-patch", "git patch", "patch(1)", "patch beside a path"),
    "destination": ("mover", "copier"), "delete": ("deleter",), "write": ("writer",),
    "read": _READS, "path": ("reader", "writer"), "glob": ("looker",), "folder": ("looker",),
    "recipient": ("messenger",),
}  # fmt: skip


def from_table(table: Path) -> list[BaseCall]:
    """Return a call for each row of a table of known tools; none without the table."""
    if not table.exists():
        return []
    rows = tomllib.loads(table.read_text())["tool"]
    return [one for row in rows if (one := _from_row(row)) is not None]


def _from_row(row: dict[str, Any]) -> BaseCall | None:
    said = {address: what.split() for address, what in row.get("arguments", {}).items()}
    plain = {name: what for name, what in said.items() if "." not in name and "[" not in name}
    arguments = {name: _honest(*what[:2]) for name, what in plain.items()}
    roles = [what[0] for what in said.values()]
    hosts = next((hosts for role, hosts in _FITTING.items() if role in roles), ("doer",))
    if row.get("harmless"):
        hosts = ("tracker",) if "command" in arguments else ("keeper",)
    if not arguments:
        return None
    return BaseCall(row["names"][0], row.get("kind", _T), arguments, hosts)


def _honest(role: str, kind: str = "any") -> Any:
    value = _HONEST.get(role)
    fits = value is not None and isinstance(value, _TYPES.get(kind, object))
    return value if fits else _BY_TYPE.get(kind, "a")
