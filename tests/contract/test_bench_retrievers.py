"""The retriever contract on the bench's own retrievers, as far as it is theirs."""

from __future__ import annotations

import pytest

from backread.bench.retrievers import Capped, OracleRetriever
from backread.models.base import Embedder
from backread.retrieval.base import Retriever
from backread.retrieval.registry import create_retriever
from backread.store.history import History
from backread.testing.contracts_retrievers import TALK, RetrieverContract


@pytest.mark.parametrize("name", ["bm25", "hybrid"])
class TestCapped(RetrieverContract):
    @pytest.fixture
    def retriever(self, embedder: Embedder, name: str) -> Retriever:
        return Capped(create_retriever(name, embedder), 10_000)


class TestOracle(RetrieverContract):
    """What it gives depends on the gold alone, so the tests of what a question finds are not its."""

    test_top_k_is_honoured = None  # type: ignore[assignment]
    test_ties_stand_in_history_order = None  # type: ignore[assignment]
    test_a_question_without_a_term_gives_nothing = None  # type: ignore[assignment]
    test_what_matches_in_no_way_is_not_returned = None  # type: ignore[assignment]
    test_user_turns_are_those_of_people = None  # type: ignore[assignment]
    test_scope_is_respected = None  # type: ignore[assignment]
    test_pending_vectors_are_said = None  # type: ignore[assignment]
    test_odd_text_is_text = None  # type: ignore[assignment]
    test_a_new_user_finds_the_first_turns = None  # type: ignore[assignment]

    @pytest.fixture
    def retriever(self, history: History) -> Retriever:
        return OracleRetriever([turn for turn in history.turns() if turn.text == TALK[0][4]])
