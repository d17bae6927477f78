"""The life of a request: asked, shown, decided, used. No other package changes its status.

Speaks to durable state through `domain.store` and to chats through `ports`; knows neither Redis nor
HTTP. Enter at `agent_service` (what agents ask) or `decisions` (what a click does).
"""
