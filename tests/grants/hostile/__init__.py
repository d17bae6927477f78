"""Hostile next calls, carried out: what a remembered answer covers does what its words say.

Begin with `search.py`. Only it and the tests import the product: the calls, the
words, the toy hosts and the judgement are read from what people and tools are told.
"""
