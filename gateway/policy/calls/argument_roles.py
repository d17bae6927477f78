"""Define the roles that a call's values can have, and derive a value's role from its name and from
the table of known tools.

Start reading at `role_of_name`. Only values with the role `data`, `part` or `remark` may change
without a rule. A name can give these roles only in shells, file tools and message tools. In other
tools a name can only make a value more restricted.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from gateway.models import Kind
from gateway.policy.calls.paths import delicate
from gateway.policy.calls.shell_words import load_words
from gateway.wire.canonical_json import canonical, sha256_hex
from gateway.wire.roles import Role

# Arguments whose name means that they destroy something or override a check: `drop=true`.

_SWITCH_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_BEGIN = frozenset({"force", "delete", "destroy", "erase", "purge", "truncate", "wipe"})
_ALONE = frozenset({"drop", "forced", "nuke", "prune", "remove", "rm"})
# Words that make a risk of an ambiguous one: `drop_first` is harmless, `drop_tables` is not.
_THINGS = frozenset(
    {"all", "bucket", "collection", "collections", "data", "database", "databases", "db",
     "everything", "existing", "if", "index", "schema", "schemas", "table", "tables",
     "volume", "volumes"}
)  # fmt: skip
_ON = frozenset({"true", "yes", "on", "1"})


def is_on(value: Any) -> bool:
    """Return whether a value turns a switch on."""
    if isinstance(value, str):
        return value.strip().lower() in _ON
    return value is True or (type(value) is int and value == 1)


def destroys(name: str) -> bool:
    """Return whether an argument with this name destroys or forces something when it is turned
    on."""
    words = [word.lower() for word in _SWITCH_WORDS.findall(name)]
    if not words:
        return False
    if words[0] in _BEGIN or (words[-1] == "force" and words[0] not in ("no", "not")):
        return True
    return words[0] in _ALONE and (len(words) == 1 or words[1] in _THINGS)


# The name of a tool: its family, and other names of the same tool.


class Family(StrEnum):
    """The kind of a tool, if all words of its name are known."""

    SHELL = "shell"
    FILE = "file"
    MESSAGE = "message"
    OTHER = "other"


_SHELL_WORDS = frozenset(
    {"ash", "bash", "cmd", "command", "commands", "console", "dash", "exec", "execute", "run",
     "sh", "shell", "term", "terminal", "zsh"}
)  # fmt: skip
_BESIDE_SHELL = frozenset({"a", "developer", "functions", "in", "local", "tool", "unified"})
# Shells that read a command differently from POSIX shells.
_FOREIGN_SHELLS = frozenset(
    {"powershell", "pwsh", "csh", "tcsh", "fish", "nushell", "xonsh", "elvish", "batch"}
)
_READING = frozenset({"cat", "get", "head", "open", "read", "search", "show", "stat", "tail",
                      "view"})  # fmt: skip
_LISTING = frozenset({"list", "ls"})
_WRITING = frozenset(
    {"append", "apply", "change", "create", "edit", "edits", "editor", "insert", "patch",
     "replace", "save", "update", "write", "writer"}
)  # fmt: skip
_MOVING = frozenset({"copy", "make", "mkdir", "move", "rename"})
_DELETING = frozenset({"del", "delete", "erase", "remove", "rm", "rmdir", "trash", "unlink"})
_FILE_VERBS = _READING | _LISTING | _WRITING
_FILE_NOUNS = frozenset(
    {"a", "absolute", "and", "based", "block", "code", "content", "contents", "diff", "dir",
     "directory", "document", "file", "files", "filesystem", "folder", "fs", "image", "in", "line",
     "lines", "many", "mcp", "media", "multi", "multiple", "new", "notebook", "page", "pages",
     "part", "path", "range", "source", "str", "string", "text", "to", "tool"}
)  # fmt: skip
_SPEAKING = frozenset(
    {"announce", "comment", "email", "mail", "message", "notify", "post", "reply", "send"}
)
_MAKING = frozenset({"add", "create"})
_MADE = frozenset({"comment", "issue", "note"})
_MESSAGE_NOUNS = frozenset(
    {"a", "announcement", "channel", "chat", "comments", "direct", "discord", "dm", "github",
     "gitlab", "gmail", "in", "issue", "jira", "linear", "mcp", "messages", "note", "notification",
     "on", "outlook", "pr", "slack", "teams", "telegram", "text", "thread", "ticket", "to", "user"}
)  # fmt: skip
_RUNNING_WORDS = load_words("dangerous_tool_words.txt")
_JOINED = re.compile(r"[A-Za-z_./:-]+")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PREFIX = re.compile(
    r"(?:functions[./]|multi_tool_use[./]|mcp__.+?__|mcp_[A-Za-z0-9]+_)(?=.)", re.IGNORECASE
)
_LONGEST = 256


@lru_cache(maxsize=1024)
def family_of(tool: str) -> Family:
    """Return the family of a tool; OTHER unless every word of its name belongs to the family."""
    words = words_of(tool)
    if not words:
        return Family.OTHER
    if words & _SHELL_WORDS and words <= _SHELL_WORDS | _BESIDE_SHELL and tool.lower() != "cmd":
        return Family.SHELL
    known = _FILE_VERBS | _MOVING | _DELETING
    if words & known and words <= known | _FILE_NOUNS:
        return Family.FILE
    speaks = words & _SPEAKING or (words & _MAKING and words & _MADE)
    if speaks and words <= _SPEAKING | _MAKING | _MESSAGE_NOUNS:
        return Family.MESSAGE
    return Family.OTHER


@lru_cache(maxsize=1024)
def verbs_of_file_tool(tool: str) -> frozenset[str]:
    """Return the actions in a file tool's name, such as read, list, write, move or delete."""
    words = words_of(tool)
    said = {"read": _READING, "list": _LISTING, "write": _WRITING, "move": _MOVING,
            "delete": _DELETING}  # fmt: skip
    return frozenset(verb for verb, known in said.items() if words & known)


def is_foreign_shell(tool: str) -> bool:
    """Return whether a tool's name says that it is a shell other than a POSIX shell."""
    return bool(_all_words(tool) & _FOREIGN_SHELLS) or tool.lower() in ("cmd", "cmd.exe")


def may_run_anything(tool: str) -> bool:
    """Return whether, judged by its name, a tool may run any code that it gets."""
    words = _all_words(tool)
    return not words or bool(words & _RUNNING_WORDS) or not tool.isascii()


def names_of(tool: str, server: str | None = None) -> tuple[str, ...]:
    """Return the names by which a denial may identify a tool: as sent, without prefixes, and in
    full."""
    bare = bare_name(tool)
    full = (f"mcp__{server}__{bare}",) if server else ()
    return tuple(dict.fromkeys((tool, bare, *full)))


def bare_name(tool: str) -> str:
    """Return a tool's name without the prefixes that dispatchers add."""
    bare = tool[:_LONGEST]
    for _ in range(4):
        bare = _PREFIX.sub("", bare, count=1) if _PREFIX.match(bare) else bare
    return bare


def words_of(tool: str) -> frozenset[str]:
    """Return the words of a tool's name; empty if it has characters other than letters."""
    return _all_words(tool) if _JOINED.fullmatch(tool) else frozenset()


def _all_words(tool: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _PARTS.findall(tool[:_LONGEST]))


_LOOK_UPS = frozenset({"get", "list", "find", "lookup", "check", "count", "show", "describe"})
# Words that change something, add another verb, or change the first one (`check_out`).
_CHANGING = _WRITING | _MOVING | _DELETING | _SPEAKING | load_words("changing_words.txt")


def is_lookup(tool: str) -> bool:
    """Return whether a tool's name is a lookup verb and its object, without a word that may mean a
    change or a run."""
    found = [word.lower() for word in _PARTS.findall(bare_name(tool))]
    if found[:2] == ["look", "up"]:
        found[:2] = ["lookup"]
    verb, rest = found[:1], found[1:]
    plain = not any(word in _CHANGING or word.removesuffix("s") in _CHANGING for word in rest)
    begins = bool(verb) and verb[0] in _LOOK_UPS and bool(rest)
    return begins and plain and bool(words_of(tool)) and not may_run_anything(tool)


def is_of_server(tool: str) -> bool:
    """Return whether a tool belongs to an MCP server, which may run on any machine."""
    return tool.lower().startswith("mcp_")


def begins_as_lookup(tool: str) -> bool:
    """Return whether the first word of a tool's name is a lookup verb."""
    found = _PARTS.findall(bare_name(tool))
    return bool(found) and found[0].lower() in _LOOK_UPS


class RoleSource(StrEnum):
    """The source of a value's role, the strongest first."""

    OPERATOR = "operator"
    AUTHOR = "author"
    TABLE = "table"
    KIND = "kind"
    NAME = "name"
    LOOK = "look"
    NOBODY = "nobody"


class JsonType(StrEnum):
    """The JSON type of a value."""

    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"
    NULL = "null"
    LIST = "list"
    OBJECT = "object"


FREE = frozenset({Role.DATA, Role.PART, Role.REMARK})
"""Roles whose values may change without a rule. Parts and remarks may also be added or left out."""
COMMANDS = frozenset({Role.COMMAND, Role.COMMANDS, Role.ARGV})
PATHS = frozenset({Role.READ, Role.WRITE, Role.DELETE, Role.DESTINATION, Role.FOLDER, Role.PATH})
VARYING = COMMANDS | PATHS
"""Roles whose values may change under a rule that reads them."""
# Roles by name that a tool's author cannot free.
# What an author cannot free where a name says one of these.
HELD = VARYING | {
    Role.ACTION, Role.INPUT, Role.NESTED, Role.PATCH, Role.URL, Role.HOST, Role.ENVIRONMENT,
    Role.USER, Role.RIGHTS, Role.WORKING_FOLDER,
}  # fmt: skip

LONGEST_NAME = 256  # characters of an argument's name
_DAY_MS = 86_400_000

_TEXT_ROLES = PATHS | {Role.WORKING_FOLDER, Role.GLOB, Role.URL, Role.PATCH, Role.COMMAND}
_NUMBERS = frozenset({"timeout", "timeoutms", "offset", "limit", "line", "startline", "endline",
                      "insertline", "linecount"})  # fmt: skip
_ENCODING = re.compile(r"[A-Za-z0-9_.-]{1,20}")

COMMAND_NAMES = frozenset({"command", "cmd", "cmdline", "commandline"})
NAMES_OF_COMMANDS = COMMAND_NAMES | {"commands", "argv"}
_WORKING_FOLDERS = frozenset({"cwd", "workdir", "workingdir", "workingdirectory", "chdir"})
_FOLDER_BESIDE_COMMAND = frozenset(
    {"directory", "dir", "dirpath", "folder", "path", "root", "repopath"}
)
_FOLDERS = frozenset({"directory", "dir", "folder", "dirpath", "directorypath", "folderpath"})
_PATHS = frozenset(
    {"path", "filepath", "file", "filename", "targetfile", "notebookpath", "absolutepath",
     "relativepath", "relativeworkspacepath", "paths", "files", "filepaths", "filenames"}
)  # fmt: skip
_DESTINATIONS = frozenset(
    {"dst", "dest", "destination", "destinationpath", "destpath", "target", "targetpath", "moveto",
     "newpath", "output", "outputpath", "outputfile", "outfile", "saveas", "saveto", "logfile",
     "link", "linkpath", "newname"}
)  # fmt: skip
_FIRST_OF_TWO = frozenset({"src", "sourcepath", "oldpath"})
# Paths in file tools; in other tools unknown.
PATHS_OF_FILE_TOOLS = {
    "source": Role.PATH, "from": Role.PATH, "root": Role.FOLDER, "to": Role.DESTINATION,
    "name": Role.PATH, "uri": Role.PATH,
}  # fmt: skip
_OF_ONE_MEANING: dict[str, Role] = {
    **dict.fromkeys(_WORKING_FOLDERS, Role.WORKING_FOLDER),
    **dict.fromkeys(_DESTINATIONS, Role.DESTINATION),
    **dict.fromkeys(_FIRST_OF_TWO, Role.PATH),
    **dict.fromkeys(_PATHS, Role.PATH),
    **dict.fromkeys(_FOLDERS, Role.FOLDER),
    **dict.fromkeys(
        ("code", "script", "program", "source", "js", "javascript", "sql", "query", "q",
         "statement", "cypher", "expression", "filter", "manifest", "yaml", "template", "prompt",
         "task", "goal", "plan", "instruction", "do", "payload", "args", "params", "executable",
         "entrypoint", "shell", "eval"),
        Role.ACTION,
    ),
    **dict.fromkeys(("stdin", "input", "chars", "keys"), Role.INPUT),
    **dict.fromkeys(("patch", "diff", "patchtext", "unifieddiff", "patches"), Role.PATCH),
    **dict.fromkeys(("url", "urls", "uri", "endpoint", "href", "webhook"), Role.URL),
    **dict.fromkeys(
        ("host", "hostname", "server", "servername", "container", "namespace", "cluster",
         "domain", "machine"),
        Role.HOST,
    ),
    **dict.fromkeys(
        ("env", "envs", "environment", "environments", "environ", "envvar", "envvars", "extraenv",
         "environmentvariable", "environmentvariables", "envoverride", "envoverrides"),
        Role.ENVIRONMENT,
    ),
    **dict.fromkeys(("user", "username", "asuser", "runas"), Role.USER),
    **dict.fromkeys(
        ("sandboxpermissions", "additionalpermissions", "withescalatedpermissions", "sudo",
         "asroot", "elevated", "privileged", "escalated", "dangerouslydisablesandbox",
         "prefixrule", "launchoptions", "permissionmode", "bypasspermissions"),
        Role.RIGHTS,
    ),
    **dict.fromkeys(("glob", "globs", "include", "exclude", "includepattern"), Role.GLOB),
    **dict.fromkeys(
        ("to", "recipient", "recipients", "channel", "channelid", "chatid", "cc", "bcc"),
        Role.RECIPIENT,
    ),
    **dict.fromkeys(("amount", "price", "quantity", "total", "currency"), Role.AMOUNT),
    **dict.fromkeys(("id", "sessionid", "threadid", "threadts", "jobid"), Role.ID),
    **dict.fromkeys(
        ("type", "operation", "op", "action", "editmode", "mode", "append", "overwrite",
         "createdirs", "dryrun", "useregex", "isinput", "runinbackground", "isbackground"),
        Role.FLAG,
    ),
}  # fmt: skip
_FILE_DATA = frozenset(
    {"content", "contents", "text", "body", "filetext", "inserttext", "oldstring", "newstring",
     "oldstr", "newstr", "oldtext", "newtext", "codeedit", "newsource"}
)  # fmt: skip
_FILE_PARTS = frozenset(
    {"insertline", "offset", "limit", "line", "startline", "endline", "linecount", "encoding",
     "replaceall", "allowmultiple", "expectedreplacements", "cellid", "celltype"}
)  # fmt: skip
_REMARKS = frozenset({"description", "timeout", "timeoutms", "justification", "explanation"})
_REMARKS_OF_FILE_TOOLS = _REMARKS | {"instructions", "instruction"}
_MESSAGE_TEXTS = frozenset(
    {"text", "message", "comment", "content", "body", "description", "subject", "title", "note"}
)
_ADDRESSES = frozenset(
    {"to", "channel", "channelid", "channelname", "chatid", "email", "issue", "issueid",
     "issuekey", "issuenumber", "number", "prnumber", "pullnumber", "recipient", "recipients",
     "repo", "repository", "room", "roomid", "ticket", "ticketid", "cc", "bcc", "owner"}
)  # fmt: skip
_EDITING_VERBS = frozenset(
    {"view", "create", "str_replace", "insert", "undo_edit", "write", "append", "replace", "read"}
)
_ENDINGS = {
    **dict.fromkeys(
        ("bash", "cmd", "code", "command", "commands", "exec", "prompt", "query", "run", "script",
         "sh", "shell", "snippet", "sql"),
        Role.ACTION,
    ),
    "stdin": Role.INPUT, "env": Role.ENVIRONMENT, "envs": Role.ENVIRONMENT,
    "permissions": Role.RIGHTS, "host": Role.HOST, "hosts": Role.HOST, "hostname": Role.HOST,
    "user": Role.USER, "users": Role.USER,
    "path": Role.PATH, "paths": Role.PATH, "file": Role.PATH, "files": Role.PATH,
    "filename": Role.PATH, "dir": Role.FOLDER, "directory": Role.FOLDER, "folder": Role.FOLDER,
    "url": Role.URL, "urls": Role.URL, "uri": Role.URL, "id": Role.ID,
}  # fmt: skip
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_DATA_OF_REQUESTS = frozenset({"body", "data", "json"})

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_PATCH_HEADER = re.compile(r"^(?:\*\*\* Begin Patch|diff --git |Index: |--- \S.*\n\+\+\+ )", re.M)
_PATCH_MARKS = ("--- ", "*** Begin Patch", "diff --git ", "Index: ")  # no header without one
_PATHLIKE = re.compile(r"file:|[~/\\]|\.{1,2}[/\\]|[A-Za-z]:[\\/]|\S*[/\\]\S*$", re.IGNORECASE)
_FILE_NAME = re.compile(r"\.[A-Za-z0-9_]\S*|[^\s:;,!?()]*[A-Za-z0-9_-]\.[A-Za-z][A-Za-z0-9]{0,9}")


class SiblingContext(NamedTuple):
    """Facts about a call's other arguments that help to interpret the name of a value."""

    family: Family
    command: bool = False  # another argument is a command
    url: bool = False
    typed: bool = False  # the command is typed into a running program


@lru_cache(maxsize=4096)
def plain_name(argument: str) -> str:
    """Return an argument's name in lower case, without separators between its words."""
    return argument.replace("_", "").replace("-", "").replace(" ", "").lower()


def words_in(name: str) -> list[str]:
    """Return the words of a name, whatever its case style, in lower case."""
    return [word.lower() for word in _WORDS.findall(name)]


def type_of(value: Any) -> JsonType:
    """Return the JSON type of a value."""
    if isinstance(value, str):
        return JsonType.TEXT
    if isinstance(value, bool):
        return JsonType.BOOLEAN
    if isinstance(value, dict):
        return JsonType.OBJECT
    if isinstance(value, list | tuple):
        return JsonType.LIST
    return JsonType.NULL if value is None else JsonType.NUMBER


def role_of_name(name: str, value: Any, beside: SiblingContext) -> Role | None:
    """Return the role that a value gets from its name and the arguments beside it; None if it gets
    none."""
    verb = beside.family is Family.FILE and isinstance(value, str) and value in _EDITING_VERBS
    if verb and plain_name(name) in COMMAND_NAMES:
        return Role.FLAG
    return _role_whatever_stands_there(name, beside)


def fits_role(role: Role, name: str, value: Any) -> bool:
    """Return whether a single value (not a list or an object) has a type that its role allows."""
    if value is None:
        return role in (Role.WORKING_FOLDER, Role.REMARK, Role.PART, Role.RIGHTS)
    if role in _TEXT_ROLES or role is Role.DATA:
        return isinstance(value, str)
    if role is Role.REMARK or role is Role.PART:
        return _fits_name(role, plain_name(name), value)
    return role not in (Role.COMMANDS, Role.ARGV) or isinstance(value, str)


def looks_like(value: Any) -> Role | None:
    """Return the role that a string's form suggests (URL, patch or path), or None."""
    if not isinstance(value, str) or not value:
        return None
    if "://" in value and _URL.match(value):
        return Role.PATH if value[:5].lower() == "file:" else Role.URL
    spaced = " " in value
    if spaced and any(mark in value for mark in _PATCH_MARKS) and _PATCH_HEADER.search(value):
        return Role.PATCH
    if "\n" in value or (not value.isalnum() and len(value.split()) > 1):
        return Role.PATH if value[0] in "~/\\" else None
    pathlike = value[0] == "~" or "/" in value or "\\" in value or ":" in value
    named = (
        (pathlike and _PATHLIKE.match(value))
        or ("." in value and _FILE_NAME.fullmatch(value))
        or delicate(value)
    )
    return Role.PATH if named else None


def _fits_name(role: Role, plain: str, value: Any) -> bool:
    """Return whether a remark or a part has the type that its name requires."""
    if isinstance(value, dict | list):
        return False
    if plain in _NUMBERS:
        return type(value) in (int, float) and 0 <= value <= _DAY_MS
    if plain == "encoding":
        return isinstance(value, str) and _ENCODING.fullmatch(value) is not None
    if role is Role.REMARK and plain in _REMARKS_OF_FILE_TOOLS:
        return isinstance(value, str)
    return not (isinstance(value, float) and math.isnan(value))


@lru_cache(maxsize=4096)
def _role_whatever_stands_there(name: str, beside: SiblingContext) -> Role | None:
    plain = plain_name(name)
    found = _role_of_command_name(plain, shell=beside.family is Family.SHELL)
    if found is None and beside.family is Family.FILE:
        found = _role_in_file_tool(plain)
    if found is None and beside.family is Family.MESSAGE:
        found = _role_in_message(plain)
    if found is None and beside.command and plain in _FOLDER_BESIDE_COMMAND:
        found = Role.WORKING_FOLDER
    if found is None and beside.command and beside.family is Family.SHELL and plain in _REMARKS:
        found = Role.REMARK
    if found is None and beside.url and plain in _DATA_OF_REQUESTS:
        found = Role.ACTION
    return found or _OF_ONE_MEANING.get(plain) or _role_of_ending(name)


def _role_of_command_name(plain: str, *, shell: bool) -> Role | None:
    if plain in COMMAND_NAMES:
        return Role.COMMAND if shell else Role.ACTION
    if plain == "commands":
        return Role.COMMANDS if shell else Role.ACTION
    if plain == "argv":
        return Role.ARGV if shell else Role.ACTION
    return None


def _role_in_file_tool(plain: str) -> Role | None:
    if plain in _FILE_DATA:
        return Role.DATA
    if plain in _FILE_PARTS:
        return Role.PART
    if plain in _REMARKS_OF_FILE_TOOLS:
        return Role.REMARK
    return PATHS_OF_FILE_TOOLS.get(plain)


def _role_in_message(plain: str) -> Role | None:
    if plain in _MESSAGE_TEXTS:
        return Role.DATA
    return Role.RECIPIENT if plain in _ADDRESSES else None


def _role_of_ending(name: str) -> Role | None:
    if len(name) > LONGEST_NAME:
        return None
    words = words_in(name)
    return _ENDINGS.get(words[-1]) if words[1:] else None


# The table of known tools, `known_tools.toml`, with the role of each argument of each tool.
#
# A row can free values only in a call that fits it: each argument is in the row and has its type.
# In other calls it only restricts.

MAX_DEPTH = 16
_TYPES = frozenset({"text", "number", "boolean", "list", "object", "any"})
_MOST_PARTS = 512
_STEP = re.compile(r"(?<=.)(?:\.|\[\])")


@dataclass(frozen=True, slots=True)
class KnownArgument:
    """The role and type of one argument address, from a table row."""

    role: Role
    type: str
    optional: bool = False  # its host takes null for no value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownTool:
    """A row of the table: one tool of one coding agent, with the roles of its arguments."""

    names: tuple[str, ...]
    host: str
    checked: str
    kind: Kind
    harmless: bool
    arguments: Mapping[str, KnownArgument]
    containers: frozenset[str]  # addresses of lists and objects that contain other addresses
    fingerprint: str

    def fits(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether the row has every argument that was sent, with the type of each."""
        left = [_MOST_PARTS]
        return len(arguments) <= _MOST_PARTS and all(
            isinstance(key, str) and self._has(key, value, left, 1)
            for key, value in arguments.items()
        )

    def _has(self, address: str, value: Any, left: list[int], depth: int) -> bool:
        left[0] -= 1
        if left[0] < 0 or depth > MAX_DEPTH:
            return False
        known = self.arguments.get(address)
        if known is not None:
            return value is None or known.type in ("any", type_of(value).value)
        if address not in self.containers or not isinstance(value, dict | list):
            return False
        if len(value) > left[0]:
            return False
        if isinstance(value, dict):
            return all(
                isinstance(key, str) and self._has(f"{address}.{key}", part, left, depth + 1)
                for key, part in value.items()
            )
        return all(self._has(f"{address}[]", part, left, depth + 1) for part in value)


_OF_SERVER = re.compile(r"mcp__(?P<server>[a-z-]+)__(?P<name>\w+)")


def find_known_tools(tool: str) -> tuple[KnownTool, ...]:
    """Return the rows whose name is exactly this tool's, or that belong to the MCP server in its
    name."""
    server = _OF_SERVER.fullmatch(tool)
    if server is None:
        return tools_by_name().get(tool, ())
    rows = tools_by_name().get(server["name"], ())
    return tuple(one for one in rows if one.host == f"MCP {server['server']}")


@lru_cache(maxsize=1024)
def rows_of_any_name(tool: str) -> tuple[KnownTool, ...]:
    """Return the rows of a tool, found by its name with or without the prefixes of dispatchers."""
    return tuple(dict.fromkeys((*find_known_tools(tool), *find_known_tools(bare_name(tool)))))


@lru_cache(maxsize=1024)
def narrowing_roles(tool: str) -> Mapping[str, Role]:
    """Return the restrictive roles in the rows of a tool, found by any of its names. The keys are
    addresses as `plain_name` writes them."""
    return {
        plain_name(address): known.role
        for row in rows_of_any_name(tool)
        for address, known in row.arguments.items()
        if known.role not in FREE | VARYING | {Role.UNKNOWN}
    }


@lru_cache(maxsize=1)
def known_tools() -> tuple[KnownTool, ...]:
    """Return all rows, in the order of the file."""
    text = (files("gateway.policy.calls") / "known_tools.toml").read_text(encoding="utf-8")
    return tuple(map(_read_row, tomllib.loads(text).get("tool", [])))


@lru_cache(maxsize=1)
def tools_by_name() -> dict[str, tuple[KnownTool, ...]]:
    """Return all rows, grouped by each name of their tool."""
    found: dict[str, tuple[KnownTool, ...]] = {}
    for row in known_tools():
        for name in row.names:
            found[name] = (*found.get(name, ()), row)
    return found


def _read_row(row: dict[str, Any]) -> KnownTool:
    arguments = {address: _read_argument(text) for address, text in row["arguments"].items()}
    return KnownTool(
        names=tuple(row["names"]),
        host=row["host"],
        checked=row["checked"],
        kind=Kind(row["kind"]),
        harmless=row.get("harmless", False),
        arguments=arguments,
        containers=frozenset(part for address in arguments for part in _addresses_above(address)),
        fingerprint=sha256_hex(canonical(row))[:32],
    )


def _read_argument(text: str) -> KnownArgument:
    role, _, named = text.partition(" ")
    optional, named = named.endswith("?"), named.removesuffix("?")
    if named not in _TYPES:
        raise ValueError(f"{text!r} is not a role and a type")
    return KnownArgument(Role(role), named, optional)


def _addresses_above(address: str) -> list[str]:
    """Return the addresses that contain an address, such as `a` and `a[]` for `a[].b`."""
    marks = [
        at for at in range(1, len(address)) if address[at] == "." or address[at : at + 2] == "[]"
    ]
    return [address[:at] for at in marks]
