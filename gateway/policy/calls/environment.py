"""Environment variables by which other code runs, or the same code elsewhere."""

from __future__ import annotations

import re

_STEERING = re.compile(
    r"PATH|IFS|HOME|SHELL|ENV|BASH_(?:ENV|FUNC_.*)|(?:LD|DYLD)_.*|PYTHON(?:PATH|HOME|STARTUP|USERBASE)"
    r"|NODE_(?:OPTIONS|PATH)|PERL5?(?:LIB|OPT|5LIB|5OPT|5DB)|RUBY(?:OPT|LIB)|JAVA_TOOL_OPTIONS|CLASSPATH"
    r"|GIT_(?:SSH.*|EXEC_PATH|CONFIG.*|DIR|WORK_TREE|ASKPASS|PROXY.*|EDITOR|PAGER|EXTERNAL_DIFF"
    r"|TEMPLATE_DIR)|(?:GIT_)?(?:EDITOR|VISUAL|PAGER)|LESSOPEN|PROMPT_COMMAND|PS4"
    r"|.*_PROXY|.*_OPTIONS|.*_OPTS|(?:SSL|CURL)_.*|.*_CA_BUNDLE",
    re.IGNORECASE,
)


def steers(name: str) -> bool:
    """Whether a variable decides which code runs, or with whom it speaks."""
    return _STEERING.fullmatch(name) is not None
