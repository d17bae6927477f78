"""Values that the server keeps, and what it requires of durable state. No I/O."""
