"""Known failures of other memory systems, each with the tests here that assert the right behaviour.

Ids are those of the project's list of cases; `tests/integration/test_cases_*.py` name them in a comment above the test.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

TESTS = Path(__file__).resolve().parents[1]
SEARCH = "integration/test_cases_search.py"
RECORD = "integration/test_cases_record.py"
USERS = "integration/test_cases_users.py"
IMPORTERS = "unit/importers/"

CASES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "CON-01": (
            f"{USERS}::test_many_threads_write_and_search",
            f"{USERS}::test_two_processes_and_one_is_killed",
        ),
        "DAT-03": (
            f"{IMPORTERS}test_importers.py::test_dates_that_are_odd_are_noted",
            f"{IMPORTERS}test_locomo.py::test_a_time_that_cannot_be_read_is_unknown_and_its_wording_kept",
            f"{IMPORTERS}test_longmemeval.py::test_a_date_that_cannot_be_read_is_unknown",
        ),
        "DAT-05": (
            f"{RECORD}::test_turns_stand_where_their_time_puts_them",
            f"{RECORD}::test_times_of_every_kind_compare",
        ),
        "DEL-03": (
            f"{USERS}::test_deleting_a_user_leaves_the_others",
            f"{USERS}::test_an_empty_scope_is_not_everybody",
            f"{USERS}::test_an_unknown_user_has_nothing_to_delete",
        ),
        "EMB-03": (
            f"{RECORD}::test_another_embedder_is_noticed_and_reindexing_settles_it",
            f"{RECORD}::test_an_interrupted_reindex_leaves_the_old_vectors_in_use_and_goes_on",
        ),
        "EVL-02": (f"{IMPORTERS}test_locomo.py::test_evl_02_adversarial_questions_have_a_trap_and_no_answer",),
        "EVL-03": (
            f"{IMPORTERS}test_locomo.py::test_evl_03_evidence",
            f"{IMPORTERS}test_locomo.py::test_evl_03_gold",
            f"{IMPORTERS}test_locomo.py::test_evl_03_only_irregular_strings_are_reported",
            f"{IMPORTERS}test_locomo.py::test_evl_03_the_report_lists_every_irregularity_and_no_other",
            f"{IMPORTERS}test_locomo.py::test_sessions_are_ordered_by_number",
        ),
        "EVL-04": (
            f"{IMPORTERS}test_importers.py::test_evl_04_answers_become_text",
            f"{IMPORTERS}test_locomo.py::test_evl_04_answers_that_are_not_text",
        ),
        "FTS-01": (f"{SEARCH}::test_hyphens_and_colons_are_no_syntax",),
        "FTS-02": (f"{SEARCH}::test_operators_are_words", f"{SEARCH}::test_no_query_is_malformed"),
        "FTS-04": (f"{SEARCH}::test_a_longer_question_finds_no_less",),
        "FTS-05": (f"{SEARCH}::test_texts_and_queries_without_words", f"{SEARCH}::test_an_emoji_can_be_found"),
        "ISO-01": (
            f"{USERS}::test_a_user_is_alone_on_every_path",
            f"{USERS}::test_another_users_id_is_a_missing_id",
            f"{USERS}::test_a_search_without_a_user_or_with_an_unknown_filter_is_refused",
            f"{USERS}::test_a_prompt_holds_nothing_of_others",
        ),
        "ISO-03": (
            f"{USERS}::test_a_filter_matches_exactly_its_value",
            f"{USERS}::test_a_crafted_value_deletes_nothing_else",
            f"{USERS}::test_unknown_keys_of_a_message_are_refused",
        ),
        "RET-04": (f"{SEARCH}::test_the_match_is_found_in_every_mode", f"{SEARCH}::test_ties_have_one_order"),
        "RET-05": (f"{SEARCH}::test_the_block_fits_the_budget",),
        "SEM-01": (
            f"{RECORD}::test_every_passage_says_who_speaks",
            f"{RECORD}::test_every_line_of_evidence_says_who_spoke",
            f"{RECORD}::test_a_speaker_filter_gives_only_that_speaker",
        ),
        "TOK-01": (f"{SEARCH}::test_words_without_spaces_between",),
        "TOK-03": (
            f"{SEARCH}::test_every_form_of_a_word_is_the_word",
            f"{SEARCH}::test_ids_are_compared_exactly_as_given",
        ),
        "TOK-04": (f"{SEARCH}::test_a_word_of_most_turns_still_counts",),
        "VER-02": (f"{RECORD}::test_what_goes_in_comes_out", f"{RECORD}::test_a_hit_holds_the_whole_text"),
        "VER-03": (
            f"{RECORD}::test_a_megabyte_in_one_message",
            f"{RECORD}::test_twenty_megabytes_are_refused_before_anything_is_stored",
        ),
        "VER-04": (
            f"{RECORD}::test_nothing_is_refused",
            f"{RECORD}::test_tool_calls_and_images_are_kept_without_words",
            f"{RECORD}::test_no_fact_comes_from_nothing",
        ),
        "VER-05": (f"{RECORD}::test_a_retry_is_one_turn_and_a_repetition_is_two",),
    }
)


def functions(path: Path) -> dict[str, ast.FunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("case", CASES)
def test_every_test_that_is_named_exists(case: str) -> None:
    for test in CASES[case]:
        file, name = test.split("::")
        assert name.startswith("test_")
        assert name in functions(TESTS / file)


@pytest.mark.parametrize("file", [SEARCH, RECORD, USERS])
def test_the_comments_above_the_tests_say_the_same(file: str) -> None:
    lines = (TESTS / file).read_text(encoding="utf-8").splitlines()
    told = set()
    for name, node in functions(TESTS / file).items():
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        comment = re.fullmatch(r"# ([A-Z]{3}-\d\d)", lines[first - 2])
        if comment and name.startswith("test_"):
            told.add((comment[1], f"{file}::{name}"))
    assert told == {(case, test) for case, tests in CASES.items() for test in tests if test.startswith(file)}
