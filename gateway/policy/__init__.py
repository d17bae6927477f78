"""Whether a request is answered without a person."""
