"""Parts by name: backread's own, those of installed packages, and module:Class."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

import pytest

from backread.errors import InvalidInputError, NotFoundError
from backread.importers import IMPORTERS, importer
from backread.registry import Kind, Plugin
from backread.retrieval.registry import RETRIEVERS, create_retriever, retriever_spec
from backread.strategies.base import Parts, Strategy
from backread.strategies.registry import STRATEGIES, create, strategy_spec
from backread.testing.fakes import HashEmbedder

MODULE = """
from backread.retrieval.bm25 import Bm25Retriever
from backread.strategies.naive_rag.strategy import NaiveRag


class Latest(NaiveRag):
    builds = False
    unit = "turn"
    needs = frozenset()

    def __init__(self, parts):
        super().__init__(parts.retriever, top_k=3)

    name = "latest"


def plain(parts):
    return NaiveRag(parts.retriever)


def search(parts):
    return Bm25Retriever(k1=3.0)


def nothing(parts):
    return None


NUMBER = 7
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a package with entry points where Python finds installed ones."""
    before = set(sys.modules)

    def put(package: str, group: str, *points: str, module: str = MODULE) -> None:
        root = tmp_path / package
        info = root / f"{package}-1.2.dist-info"
        info.mkdir(parents=True)
        (root / f"{package}.py").write_text(module, encoding="utf-8")
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n", encoding="utf-8")
        lines = "".join(f"{point}\n" for point in points)
        (info / "entry_points.txt").write_text(f"[{group}]\n{lines}", encoding="utf-8")
        monkeypatch.syspath_prepend(root)

    yield put
    for name in set(sys.modules) - before:
        if name.startswith("plug_"):
            del sys.modules[name]


def test_a_package_adds_a_strategy(install: Install) -> None:
    install("plug_a", "backread.strategies", "latest = plug_a:Latest")
    assert "latest" in STRATEGIES
    assert "latest" in list(STRATEGIES)
    assert STRATEGIES.plugins() == [Plugin("strategy", "latest", "plug_a:Latest", "plug_a 1.2")]
    spec = strategy_spec("latest")
    assert (spec.builds, spec.unit, spec.needs) == (False, "turn", frozenset())
    made = create("latest", Parts(create_retriever("bm25", None)))
    assert isinstance(made, Strategy)
    assert made.config["top_k"] == 3


def test_any_other_is_named_by_module_and_class(install: Install) -> None:
    install("plug_b", "another.group")
    assert "plug_b:Latest" not in STRATEGIES
    assert create("plug_b:plain", Parts(create_retriever("bm25", None))).name == "naive_rag"
    spec = strategy_spec("plug_b:plain")  # says nothing of itself: it may build, and may need vectors
    assert (spec.builds, spec.unit, spec.needs) == (True, "entry", frozenset({"vectors"}))
    assert create_retriever("plug_b:search", None).config["k1"] == 3.0
    assert retriever_spec("plug_b:search").vectors == "if there"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("plug_c:NUMBER", "is no strategy but int"),
        ("plug_c:nothing", "makes no strategy but NoneType"),
        ("plug_c:search", "makes no strategy but Bm25Retriever"),
    ],
)
def test_what_is_no_strategy_is_told(install: Install, name: str, words: str) -> None:
    install("plug_c", "another.group")
    with pytest.raises(InvalidInputError, match=words):
        create(name, Parts(create_retriever("bm25", None)))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("plug_d:Missing", "plug_d has no 'Missing'"),
        ("plug_d.deeper:Latest", "there is no module 'plug_d.deeper'"),
        ("plug_zzz:Latest", "there is no strategy 'plug_zzz:Latest'"),
        ("naive_rag:sesion", "there is no strategy 'naive_rag:sesion'"),
        ("latest", "there is no strategy 'latest'"),
        ("lat est:x", "there is no strategy 'lat est:x'"),
    ],
)
def test_what_is_not_there_is_told(install: Install, name: str, words: str) -> None:
    install("plug_d", "another.group")
    with pytest.raises(NotFoundError, match=words):
        strategy_spec(name)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("import plug_not_there", "needs a module that is missing: No module named 'plug_not_there'"),
        ("raise RuntimeError('out of cheese')", "RuntimeError: out of cheese"),
        ("x = (", "SyntaxError"),
    ],
)
def test_a_module_that_cannot_be_imported_says_why(install: Install, module: str, words: str) -> None:
    install("plug_e", "another.group", module=module)
    with pytest.raises(InvalidInputError, match=words):
        strategy_spec("plug_e:Latest")


def test_own_names_come_first_and_a_name_of_two_packages_is_nobodys(install: Install) -> None:
    install("plug_f", "backread.strategies", "naive_rag = plug_f:NUMBER", "twice = plug_f:Latest")
    install("plug_g", "backread.strategies", "twice = plug_g:Latest")
    assert strategy_spec("naive_rag").unit == "turn"
    assert "twice" not in STRATEGIES
    with pytest.raises(
        InvalidInputError, match="several packages add a strategy 'twice': plug_f:Latest, plug_g:Latest"
    ):
        strategy_spec("twice")


def test_a_package_adds_an_importer_and_a_retriever(install: Install) -> None:
    install("plug_h", "backread.importers", "chats = plug_h:plain")
    install("plug_i", "backread.retrievers", "k3 = plug_i:search")
    assert "chats" in IMPORTERS
    assert importer("chats").__name__ == "plain"  # type: ignore[attr-defined]
    assert "k3" in RETRIEVERS
    assert create_retriever("k3", HashEmbedder()).name == "bm25"


@pytest.mark.parametrize("name", list(STRATEGIES))
def test_every_own_strategy_says_what_it_is(name: str) -> None:
    spec = strategy_spec(name)
    assert spec.summary
    made = spec.make(Parts(create_retriever("hybrid", None)))
    assert made.name == name


def test_every_own_preset_is_listed() -> None:
    for design, names in groupby(STRATEGIES.own, lambda name: name.partition(":")[0]):
        module = importlib.import_module(f"backread.strategies.{design}.strategy")
        assert {name.partition(":")[2] for name in names} == set(module.SPECS)


def test_a_kind_is_a_collection_of_names() -> None:
    kind = Kind("thing", "things", {"b": "json:dumps", "a": "json:loads"})
    assert (list(kind), len(kind), "a" in kind, "c" in kind) == (["b", "a"], 2, True, False)
    assert kind.group == "backread.things"
