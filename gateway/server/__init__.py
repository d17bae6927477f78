"""Build a gateway from its parts and run it: the only package that imports all others.

Only the command line and `doctor` import it. Start at `app` (from settings to a running gateway) or
`settings` (everything an operator can set).
"""
