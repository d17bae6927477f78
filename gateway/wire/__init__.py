"""How models become bytes, the same on both sides."""
