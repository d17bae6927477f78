"""Puts the parts together and runs them: the only place that knows every package.

Nothing imports it but the command line and `doctor`. Enter at `app` (from settings to a running
gateway) or `settings` (everything an operator can set).
"""
