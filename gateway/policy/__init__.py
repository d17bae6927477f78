"""Can a request be answered without a person? Pure, but for the processes of policy hooks.

Sees values of `domain` and nothing that stores or sends. Enter at `chain` (deciders in order, the
first answer wins, and what it does to a request).
"""
