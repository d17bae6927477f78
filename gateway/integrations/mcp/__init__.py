"""The Model Context Protocol: a proxy that gates any server, and the gateway's own server."""
