"""Coding agents that ask through a hook: what each sends, and how it is answered."""
