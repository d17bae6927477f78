"""Decide requests and manage grants from any chat platform. All of them share the texts."""
