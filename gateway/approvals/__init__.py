"""The life of a request: submitted, shown, decided, used. No other package changes its status.

Uses durable state through `domain.store` and chats through `ports`; knows neither Redis nor HTTP.
Start with `agent_service` (calls of agents) or `decisions` (clicks of people).
"""
