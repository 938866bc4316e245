"""Token counts: the estimate by hand, and never a download."""

from __future__ import annotations

import hashlib
import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from backread.errors import MissingExtraError, ModelNotAvailableError
from backread.text import tokens as module
from backread.text.tokens import EstimateCounter, TiktokenCounter, TokenCounter, default_counter

count = EstimateCounter().count


def test_the_estimate_is_a_counter() -> None:
    counter: TokenCounter = EstimateCounter()
    assert counter.name == "estimate-1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 1),
        ("the cat sat", 3),
        ("\n", 1),
        ("the cat\n", 3),
        ("the.", 2),
        ("2023", 2),  # three digits and one
        ("in 2023", 4),  # a digit run takes no space in
        ("🚢", 3),
        ("京", 1),
        ("don't", 2),
        ("a" * 64, 26),  # no word: 0.4 per letter
        ("--------------------------------", 3),  # 1 + 32 * 0.06, a rule
    ],
)
def test_the_estimate_by_hand(text: str, expected: int) -> None:
    assert count(text) == expected


# Exact o200k_base counts, made once with tiktoken 0.14 and the published ranks.
EXACT = [
    ("I went to the hospital yesterday and the doctor said that everything is going well with my recovery.", 19),
    ("Gestern habe ich die neue Wohnung besichtigt. Der Vermieter meinte, wir könnten schon im März einziehen.", 24),
    ("Al final no pude ir porque el perro se puso malo y tuvimos que llevarlo al veterinario.", 21),
    ("昨天我们把旅行预算改成八千元，今天重启之后恢复正常。你周末有空吗？我想请你吃饭。", 32),
    (
        "def total(items):\n    result = 0\n    for item in items:\n        result += item.price\n    return result\n",
        26,
    ),
    ("So happy for you!! 🎉🎉 see you at the pier 🚢 can't wait ☕️📚", 23),
]


@pytest.mark.parametrize(("text", "exact"), EXACT)
def test_the_estimate_errs_on_the_high_side(text: str, exact: int) -> None:
    # One short text may be off by more than the average of many, which the class's docstring states.
    assert exact <= count(text) <= exact * 1.25


@pytest.mark.parametrize("text", ["\ud800", "\x00\x01", "e\u0301" * 9, "ꀀ", "𓀀", "\u200d", "\r\r", "\xa0"])
def test_any_text_counts(text: str) -> None:
    assert 0 <= count(text) <= len(text.encode("utf-8", "surrogatepass"))


def test_english_is_cheaper_than_other_latin() -> None:
    assert count("the information about my appointment") < count("die Informationen zur Besprechung gestern")


@pytest.fixture
def no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def fake_tiktoken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the optional package, with one token per word."""
    fake = SimpleNamespace(
        __spec__=importlib.machinery.ModuleSpec("tiktoken", None),
        get_encoding=lambda name: SimpleNamespace(encode_ordinary=lambda text: text.split()),
    )
    monkeypatch.setitem(sys.modules, "tiktoken", fake)


@pytest.fixture
def ranks(no_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cached file that passes for the ranks."""
    data = b"ranks"
    path = no_cache / "fb374d419588a4632f3f557e76b4b70aebbca790"
    path.write_bytes(data)
    monkeypatch.setattr(module, "_RANKS_SHA256", hashlib.sha256(data).hexdigest())
    return path


def test_without_tiktoken_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'backread\[tiktoken\]'"):
        TiktokenCounter()


@pytest.mark.usefixtures("fake_tiktoken", "no_cache")
def test_without_ranks_nothing_is_downloaded() -> None:
    with pytest.raises(ModelNotAvailableError, match="no cached ranks"):
        TiktokenCounter()
    assert default_counter().name == "estimate-1"


@pytest.mark.usefixtures("fake_tiktoken", "ranks")
def test_with_tiktoken_and_ranks_counts_are_exact() -> None:
    counter = default_counter()
    assert counter.name == "tiktoken:o200k_base"
    assert counter.count("one two three") == 3


@pytest.mark.usefixtures("fake_tiktoken")
def test_a_damaged_file_is_no_cache(ranks: Path) -> None:
    # tiktoken would delete it and download it again.
    ranks.write_bytes(b"other")
    assert default_counter().name == "estimate-1"


@pytest.mark.usefixtures("fake_tiktoken")
def test_a_switched_off_cache_is_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert default_counter().name == "estimate-1"


@pytest.mark.usefixtures("fake_tiktoken", "ranks")
def test_other_places_of_the_cache(monkeypatch: pytest.MonkeyPatch, ranks: Path) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", str(ranks.parent))
    assert default_counter().name == "tiktoken:o200k_base"
    monkeypatch.delenv("DATA_GYM_CACHE_DIR")
    monkeypatch.setattr("tempfile.tempdir", str(ranks.parent / "none"))
    assert default_counter().name == "estimate-1"


def test_without_tiktoken_the_default_is_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    counter: Any = default_counter()
    assert counter.name == "estimate-1"
