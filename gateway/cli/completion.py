"""`gateway completion`: print a script with which a shell completes commands and options."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from gateway.cli.commands import make_parser
from gateway.client import commands

_BASH = """# eval "$(gateway completion bash)"
_gateway_words() {
  case "$1" in
CASES
  esac
}
_gateway() {
  local at=gateway word
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in -*) continue ;; esac
    case " $(_gateway_words "$at") " in *" $word "*) at="$at $word" ;; esac
  done
  COMPREPLY=($(compgen -W "$(_gateway_words "$at")" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _gateway gateway
"""
_ZSH = """#compdef gateway
# eval "$(gateway completion zsh)"
_gateway_words() {
  case "$1" in
CASES
  esac
}
_gateway() {
  local at=gateway word
  for word in "${(@)words[2,CURRENT-1]}"; do
    case "$word" in -*) continue ;; esac
    case " $(_gateway_words "$at") " in *" $word "*) at="$at $word" ;; esac
  done
  compadd -- ${=$(_gateway_words "$at")} || _files
}
compdef _gateway gateway
"""
_FISH = """# gateway completion fish | source
function __gateway_words
  switch "$argv[1]"
CASES
  end
end
function __gateway_complete
  set -l at gateway
  for word in (commandline -opc)[2..-1]
    if contains -- $word (__gateway_words "$at"); and not string match -q -- '-*' $word
      set at "$at $word"
    end
  end
  __gateway_words "$at"
end
function __gateway_knows
  string match -q -- (commandline -ct)"*" (__gateway_complete)
end
# Files only where no word fits.
complete -c gateway -n __gateway_knows -f -a '(__gateway_complete)'
"""


def print_completion(options: argparse.Namespace) -> int:
    """Print the completion script for a shell."""
    form, case = {
        "bash": (_BASH, '    "{path}") echo "{words}" ;;'),
        "zsh": (_ZSH, '    "{path}") echo "{words}" ;;'),
        "fish": (_FISH, '    case "{path}"; string split " " -- "{words}"'),
    }[options.shell]
    cases = [case.format(path=path, words=" ".join(words)) for path, words in commands_and_words()]
    print(form.replace("CASES", "\n".join(cases)), end="")
    return 0


def commands_and_words() -> Iterator[tuple[str, list[str]]]:
    """Yield each command, starting with `gateway`, and the words that may follow the command."""
    own = {f"gateway {verb}": commands.make_parser(verb) for verb in ("ask", "wait", "run")}
    left = [("gateway", make_parser())]
    while left:
        path, parser = left.pop(0)
        words: list[str] = []
        for action in own.get(path, parser)._actions:  # argparse has no other way to ask
            words += action.option_strings
            if isinstance(action, argparse._SubParsersAction):
                words += action.choices
                left += [(f"{path} {name}", one) for name, one in action.choices.items()]
            elif action.choices and not action.option_strings:
                words += map(str, action.choices)
        yield path, words
