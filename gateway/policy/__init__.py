"""Decide which requests can be answered without a person.

Start reading at `chain`, which asks the deciders in order and uses the first answer. The package
uses only values of `domain` and neither stores nor sends anything. Only policy hooks start
processes.
"""
