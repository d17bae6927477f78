"""Conversations that all chats share: what people do there, and the words they get for it."""
