"""Agents' hosts that ask through the gateway: one module for each, which only `gateway.client` and
the wire's types serve. A host's own library is imported when the host loads its module."""
