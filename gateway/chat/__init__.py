"""Decide requests and manage grants from any chat, with the texts that all chats share."""
