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
_RUN = re.compile(
    r"(?:GIT_|MAN|SYSTEMD_|AWS_|GH_|DELTA_)?PAGER|(?:GIT_|GIT_SEQUENCE_|SUDO_|HG|SVN_|GH_|KUBE_|FC)?EDITOR"
    r"|VISUAL|BROWSER|GIT_SSH(?:_COMMAND)?|GIT_EXTERNAL_DIFF|GIT_PROXY_COMMAND|(?:GIT|SSH|SUDO)_ASKPASS"
    r"|(?:CVS|RSYNC)_RSH|SVN_SSH|PROMPT_COMMAND|LESS(?:OPEN|CLOSE)|FZF_DEFAULT_COMMAND|MAKESHELL"
)


def is_run(name: str) -> bool:
    """Whether a shell or a program runs the value of a variable as a command."""
    return _RUN.fullmatch(name) is not None


def steers(name: str) -> bool:
    """Whether a variable decides which code runs, or with whom it speaks."""
    return _STEERING.fullmatch(name) is not None
