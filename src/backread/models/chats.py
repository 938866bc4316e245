"""The chat models that the settings name."""

from __future__ import annotations

from backread.models.openai import OpenAIChat
from backread.models.roles import ChatRoles
from backread.settings import Settings

__all__ = ["open_roles"]


def open_roles(settings: Settings) -> ChatRoles:
    """A client for every model that is named, roles with the same one sharing it; nothing is contacted.

    A role without a model of its own has `settings.model`, and none when that is not set either. A model without an
    endpoint is reported by its first call, so that a record can be written and read without one.
    """
    clients: dict[str, OpenAIChat] = {}

    def client(named: str | None) -> OpenAIChat | None:
        model = named or settings.model
        if model is None:
            return None
        if model not in clients:
            clients[model] = OpenAIChat(
                model,
                base_url=settings.base_url,
                api_key=settings.api_key,
                timeout=settings.timeout,
                context_window=settings.context_window or None,
            )
        return clients[model]

    return ChatRoles(
        build=client(settings.build_model),
        recall=client(settings.recall_model),
        answer=client(settings.answer_model),
        judge=client(settings.judge_model),
    )
