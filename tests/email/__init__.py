"""Tests of the e-mail adapter against a real mail server."""
