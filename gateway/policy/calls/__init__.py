"""Find out what a tool call affects: the programs, paths, hosts and texts in its arguments.

Start reading at `call_effects.touch`. The package neither reads files nor runs anything.
"""
