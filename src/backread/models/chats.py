"""The chat models that the settings name."""

from __future__ import annotations

from backread.models.base import ChatModel
from backread.models.roles import ChatRoles
from backread.settings import Settings

__all__ = ["open_roles"]


def open_roles(settings: Settings) -> ChatRoles:
    """A client for every model that is named, roles with the same one sharing it; nothing is contacted.

    Names that start with "local:" are models on this machine; their server starts with the first call. A role without a
    model of its own has `settings.model`, and none when that is not set either. A model without an
    endpoint is reported by its first call, so that a record can be written and read without one.
    """
    clients: dict[str, ChatModel] = {}

    def client(named: str | None) -> ChatModel | None:
        model = named or settings.model
        if model is None:
            return None
        if model not in clients:
            clients[model] = _open(model, settings)
        return clients[model]

    return ChatRoles(
        build=client(settings.build_model),
        recall=client(settings.recall_model),
        answer=client(settings.answer_model),
        judge=client(settings.judge_model),
    )


def _open(model: str, settings: Settings) -> ChatModel:
    from backread.models.fetch import models_dir  # not for who has no chat model
    from backread.models.local import PREFIX, open_local
    from backread.models.openai import OpenAIChat

    if model.startswith(PREFIX):
        return open_local(
            model,
            directory=models_dir(settings.models_dir),
            threads=settings.threads or 1,
            context=settings.context_window or 4096,
            check=False,
        )
    return OpenAIChat(
        model,
        base_url=settings.base_url,
        api_key=settings.api_key,
        timeout=settings.timeout,
        context_window=settings.context_window or None,
    )
