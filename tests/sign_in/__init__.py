"""Ways to sign in besides a link."""
