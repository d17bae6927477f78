"""One package per place where people decide requests. Adapters import `gateway.ports`, never each
other."""
