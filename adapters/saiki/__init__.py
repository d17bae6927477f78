"""The Saiki adapter: serves Saiki's tool confirmation protocol to existing custom user interfaces.
See docs/integrations/saiki-and-dexto.md."""

from adapters.saiki.adapter import SaikiAdapter

__all__ = ["SaikiAdapter"]
