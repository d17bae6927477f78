"""The life of a request: the only package that changes its status."""
