"""Builds a gateway from its parts and runs it: the only package that imports all others.

Nothing imports it but the command line and `doctor`. Enter at `app` (from settings to a running
gateway) or `settings` (everything an operator can set).
"""
