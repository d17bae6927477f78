"""The Model Context Protocol: a proxy before any server, and a server of our own."""
