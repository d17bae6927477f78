"""The HTTP API: the same five verbs as over Redis, and what approvers and operators need."""
