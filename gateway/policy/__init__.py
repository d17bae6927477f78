"""Decide which requests can be answered without a person.

Start at `chain`, which asks the deciders in order and takes the first answer. The package uses only
values of `domain` and neither stores nor sends anything; only policy hooks start processes.
"""
