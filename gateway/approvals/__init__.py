"""Handle requests from submission to use. No other package changes the status of a request.

It stores data through `domain.store` and reaches chats through `ports`, and uses neither Redis nor
HTTP directly. Start with `agent_service` (calls of agents) or `decisions` (clicks of people).
"""
