"""Connect coding agents and agent frameworks to the gateway, with one module for each. The modules
use only `gateway.client` and the wire types, and import a framework's library only when needed."""
