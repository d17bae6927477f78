"""A Slack at the wire for the tests: Web API, Socket Mode, signed deliveries, and people."""
