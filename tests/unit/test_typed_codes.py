"""Codes that are read in one place and typed in another."""

from __future__ import annotations

import re

from gateway.domain.typed_codes import make_code, read_code


def test_a_code_is_made_of_letters_that_nobody_mistakes() -> None:
    """Every letter of the alphabet occurs, none that looks like another, and no two are alike."""
    made = [make_code(4) for _ in range(500)]
    assert all(re.fullmatch(r"[0-9A-Z]{4}(-[0-9A-Z]{4}){3}", code) for code in made)
    letters = {letter for code in made for letter in code} - {"-"}
    assert len(letters) == 32
    assert not letters & set("ILOU")
    assert len(set(made)) == len(made)


def test_it_is_read_however_it_was_typed() -> None:
    """Its groups and the size of its letters say nothing; what looks like a digit is one."""
    for typed in ("10AB-CDEF", "10ab-cdef", " 10ABC DEF\n", "1OAB-CDEF", "loabcdef", "i0abcdef"):
        assert read_code(typed) == "10ABCDEF"
    assert read_code("10AB-CDEG") != "10ABCDEF"
