"""The Model Context Protocol: a proxy that gates any MCP server, and an MCP server of the
gateway."""
