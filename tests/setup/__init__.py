"""From nothing to the first tap: the whole way of both chats, driven and counted."""
