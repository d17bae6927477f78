"""Find out what a tool call touches: the programs, paths, hosts and texts in its arguments.

Start at `call_effects.touch`. The package is pure: it neither reads files nor runs anything.
"""
