"""GLiNER behind the tagger's protocol, with a stand-in for its model; neither package nor weights are needed."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from backread.errors import MissingExtraError, ModelNotAvailableError, ModelOutputError
from backread.models.base import Tagger
from backread.models.gliner import LABELS, GlinerTagger


class Fixed:
    """Finds words of a list, as GLiNER tells them: a dict a span."""

    def __init__(self, *words: str, shift: int = 0) -> None:
        self.words, self.shift = words, shift
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def predict_entities(self, text: str, labels: list[str], **given: Any) -> list[dict[str, Any]]:
        self.calls.append((text, {"labels": labels, **given}))
        places = [(text.find(word), word) for word in self.words if word in text]
        return [
            {"start": at + self.shift, "end": at + len(word) + self.shift, "text": word, "label": "x", "score": 0.9}
            for at, word in places
        ]


def test_names_come_in_the_order_they_appear_each_once() -> None:
    model = Fixed("Leeds", "Ann", "leeds")
    tagger = GlinerTagger(lambda: model, name="w")
    assert isinstance(tagger, Tagger)
    assert tagger.tag(["Ann lives in Leeds", "in leeds again"], ["Bergen"]) == ("Ann", "Leeds")
    assert tagger.name == "gliner:w@0.5"
    assert model.calls[0] == ("Ann lives in Leeds", {"labels": list(LABELS), "threshold": 0.5, "flat_ner": True})


def test_a_long_text_is_read_in_pieces() -> None:
    model = Fixed("Leeds")
    text = "We went there and came back the same day. " * 60 + "It was Leeds."
    assert GlinerTagger(lambda: model).tag([text]) == ("Leeds",)
    assert len(model.calls) > 1
    assert max(len(piece.split()) for piece, _ in model.calls) <= 200


def test_no_text_takes_no_model() -> None:
    def load() -> Any:
        raise AssertionError("nothing is to be loaded")

    assert GlinerTagger(load).tag(["", "  "]) == ()


def test_names_that_are_not_in_the_text_are_an_error() -> None:
    with pytest.raises(ModelOutputError, match="not in the text"):
        GlinerTagger(lambda: Fixed("Leeds", shift=99)).tag(["Leeds"])


def test_weights_that_are_not_there_are_an_error_with_the_command_that_fetches_them() -> None:
    def load() -> Any:
        raise OSError("no file config.json")

    with pytest.raises(ModelNotAvailableError, match=r"no file config\.json") as caught:
        GlinerTagger(load, name="some/weights").tag(["Leeds"])
    assert caught.value.hint == "run `hf download some/weights`"


@pytest.mark.skipif(importlib.util.find_spec("gliner") is not None, reason="gliner is installed")
def test_without_the_package_it_says_how_to_install_it() -> None:
    with pytest.raises(MissingExtraError, match="pip install gliner"):
        GlinerTagger.open()
