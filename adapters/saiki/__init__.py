"""Saiki's tool confirmation, as its document writes it: a custom user interface that was made for
it answers here. See docs/integrations/saiki-and-dexto.md."""

from adapters.saiki.adapter import SaikiAdapter

__all__ = ["SaikiAdapter"]
