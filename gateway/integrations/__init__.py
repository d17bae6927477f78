"""Connect coding agents and agent frameworks to the gateway, with one module for each. They use
only `gateway.client` and the wire types. A module imports its framework's library when used."""
