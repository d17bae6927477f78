"""What a tool call touches: the programs, paths, hosts and texts in its arguments. Pure.

Enter at `command_table` (what a command does) or `argument_names` (what a name tells).
"""
