"""Places where people answer, one package each. They know `gateway.ports`, never each other."""
