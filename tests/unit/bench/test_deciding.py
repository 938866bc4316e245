"""From records to a choice: what is compared, how it is tested, when it is said that the data can't tell."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
from bench_samples import built, failed, question, results, used

from backread.bench.deciding import Choice, recommend
from backread.bench.records import QuestionRecord, ShownLine
from backread.bench.spec import Cell, DesignSpec
from backread.bench.standings import Standing, contest_of
from backread.errors import InvalidInputError

BUDGETS = (300, 600, 900)


def cell(strategy: str, budget: int | None = 300, **more: Any) -> Cell:
    return Cell(strategy=strategy, budget=budget, **more)


def asked(number: int, where: Cell, value: float, *, kind: str = "verbatim", **changes: Any) -> QuestionRecord:
    """A record whose evidence is its own, so that no two designs look the same."""
    shown = (ShownLine(kind=kind, rank=0, sources=((f"{where.name}", 0, None),)),)  # type: ignore[arg-type]
    given = {"gold_sessions": (f"s{number:03}",), "tokens": 100 + number, "counter": "estimate", "shown": shown}
    measures = {"coverage:verbatim": value, "coverage:words": value / 2}
    return question(number, where, measures=measures, **given | changes)


def choice_of(records: Sequence[QuestionRecord], *more: Any, **options: Any) -> Choice:
    names = list(dict.fromkeys(record.cell.strategy for record in records))
    designs = [DesignSpec(strategy=name, budgets=BUDGETS) for name in names]
    return recommend(results([*records, *more], designs), **{"resamples": 999} | options)


def gaining(
    *, noise: float = 0.02, questions: int = 30, budgets: Sequence[int] = BUDGETS, seed: int = 7, **gains: float
) -> list[QuestionRecord]:
    """Records of designs that show so much more than the default's 0.5, give or take some chance."""
    chance = random.Random(seed)
    return [
        asked(number, cell(name, budget), 0.5 + gain + chance.uniform(-noise, noise))
        for name, gain in {"naive_rag": 0.0, **gains}.items()
        for budget in budgets
        for number in range(questions)
    ]


def standing(choice: Choice, name: str) -> Standing:
    return next(item for item in choice.standings if item.strategy == name)


# --- what is recommended


def test_the_best_of_those_that_beat_the_default() -> None:
    choice = choice_of(gaining(pages=0.1, windows=0.2))
    assert choice.recommended == "windows"
    assert choice.contenders == ("windows", "pages")
    assert [item.strategy for item in choice.standings] == ["windows", "pages", "naive_rag"]
    assert choice.reason.startswith("windows is better than naive_rag at 3 of 3 budgets: +0.2")
    assert choice.reason.endswith(" So is pages, with a mean of 0.60 to 0.70.")
    assert choice.needed is None


@pytest.mark.parametrize(("budgets", "recommended"), [(2, "windows"), (1, None)])
def test_most_budgets_must_show_it(budgets: int, recommended: str | None) -> None:
    records = gaining(budgets=BUDGETS[:budgets], windows=0.2) + gaining(budgets=BUDGETS[budgets:], windows=0.0)
    choice = choice_of(records)
    assert choice.recommended == recommended
    assert [row.better for row in standing(choice, "windows").budgets] == [place < budgets for place in range(3)]


def test_the_default_when_it_beats_every_other() -> None:
    choice = choice_of(gaining(pages=-0.3, windows=-0.1))
    assert choice.recommended == "naive_rag"
    assert choice.contenders == ("naive_rag",)
    assert choice.reason.startswith("naive_rag is better than every other design here; the next is windows, -0.")


def test_nothing_when_one_may_be_as_good_as_the_default() -> None:
    choice = choice_of(gaining(pages=-0.3, windows=0.0))
    assert choice.recommended is None
    assert sorted(choice.contenders) == ["naive_rag", "windows"]
    assert standing(choice, "pages").worse
    assert "can't tell" in choice.reason
    assert "pages" not in choice.reason


def test_a_design_that_shows_the_same_is_not_tested_twice() -> None:
    records = gaining(windows=0.2)
    twin = [r.model_copy(update={"cell": cell("twin", r.cell.budget)}) for r in records if r.cell.strategy == "windows"]
    alone, both = choice_of(records), choice_of(records + twin)
    assert standing(both, "twin").same_as == "windows"
    assert [row.adjusted for row in standing(both, "twin").budgets] == [None, None, None]
    assert [r.adjusted for r in standing(both, "windows").budgets] == [r.p for r in standing(alone, "windows").budgets]
    assert (both.recommended, both.contenders) == ("windows", ("windows",))
    assert "twin shows the same evidence as windows here." in both.notes


def test_designs_that_all_show_the_same() -> None:
    records = gaining(budgets=[300])
    twin = [record.model_copy(update={"cell": cell("twin")}) for record in records]
    choice = choice_of(records + twin)
    assert (choice.recommended, choice.needed) == (None, None)
    assert choice.reason == "Every design shows the same evidence as naive_rag."


def test_designs_that_rewrite_are_never_the_same() -> None:
    records = [
        asked(n, cell(name), 0.5 + n / 100, kind="rewrite") for name in ("naive_rag", "windows") for n in range(8)
    ]
    same = [r.model_copy(update={"shown": records[0].shown}) for r in records]
    assert standing(choice_of(same), "windows").same_as is None


def test_of_equal_designs_the_one_that_spends_less_comes_first() -> None:
    records = gaining(noise=0.0, apt=0.2, brief=0.2)
    spend = {"apt": 900, "brief": 100, "naive_rag": 0}
    priced = [r.model_copy(update={"usage": (used("recall", 1, spend[r.cell.strategy], 20),)}) for r in records]
    choice = choice_of(priced, built("ann", "apt", usage=(used("build", 1, 500, 50),)))
    assert [item.strategy for item in choice.standings] == ["brief", "apt", "naive_rag"]
    assert choice.recommended == "brief"
    assert [row.model_tokens for row in standing(choice, "apt").budgets] == [920.0] * 3
    assert (standing(choice, "apt").build_tokens, standing(choice, "brief").build_tokens) == (550, 0)


def test_calls_that_were_not_counted_are_not_zero() -> None:
    records = [r.model_copy(update={"usage": (used("recall", 1, None, None),)}) for r in gaining(windows=0.1)]
    assert standing(choice_of(records), "windows").budgets[0].model_tokens is None


# --- how it is tested


@pytest.mark.parametrize(("budgets", "level"), [(1, 0.05), (2, 0.05), (3, 0.05 * 2 / 3)])
def test_the_level_hangs_on_how_many_budgets_must_show_it(budgets: int, level: float) -> None:
    # k of B: 1 of 1, 2 of 2, 2 of 3.
    choice = choice_of(gaining(budgets=BUDGETS[:budgets], windows=0.1))
    assert choice.level == pytest.approx(level)


def test_p_values_are_corrected_over_designs() -> None:
    choice = choice_of(gaining(budgets=[300], noise=0.3, pages=0.05, windows=0.1))
    raw = {name: standing(choice, name).budgets[0].p or 0.0 for name in ("pages", "windows")}
    (low, first), (high, second) = sorted((p, name) for name, p in raw.items())
    assert standing(choice, first).budgets[0].adjusted == pytest.approx(2 * low)
    assert standing(choice, second).budgets[0].adjusted == pytest.approx(max(2 * low, high))


def test_what_could_be_shown_and_how_many_questions_it_takes() -> None:
    # One test at 0.05: 1.960 + 0.842 standard errors are shown 4 times in 5.
    choice = choice_of(gaining(budgets=[300], noise=0.5, seed=3, windows=0.02))
    (row,) = standing(choice, "windows").budgets
    assert row.difference is not None
    assert row.difference.mean is not None
    assert row.difference.error is not None
    assert row.detectable is not None
    assert row.detectable == pytest.approx(2.8016 * row.difference.error, rel=1e-4)
    assert choice.recommended is None
    # Errors shrink with the root of the questions.
    assert choice.needed == math.ceil(30 * (row.detectable / abs(row.difference.mean)) ** 2)
    assert f"About {choice.needed:,} questions would" in choice.reason


def test_designs_that_hardly_differ_have_no_number_of_questions() -> None:
    records = [
        asked(n, cell(name), 0.5 + (0.2 * (-1) ** n + 0.001 if name == "windows" else 0.0))
        for name in ("naive_rag", "windows")
        for n in range(30)
    ]
    choice = choice_of(records)
    # Of +0.201 and -0.199 the mean is 0.001, the error near 0.2 / sqrt(30) = 0.037, and (2.8 * 0.037 / 0.001)^2 * 30
    # questions are more than 300,000.
    assert choice.needed is None
    assert choice.reason.endswith(" A difference below about 0.10 would not show here.")


def test_designs_that_are_all_alike_are_seldom_told_apart() -> None:
    # 40 experiments in which no design is better; at a level of 0.05 two of them are to be expected at most.
    found = [
        choice_of(gaining(noise=0.5, questions=20, seed=seed, pages=0.0, windows=0.0), resamples=199).recommended
        for seed in range(40)
    ]
    assert len([name for name in found if name is not None]) <= 2


@pytest.mark.parametrize(("users", "by", "clusters"), [(4, "gold session", 60), (5, "user", 5)])
def test_questions_are_drawn_by_user_or_by_gold_session(users: int, by: str, clusters: int) -> None:
    records = [
        asked(n, cell(name), 0.5 + n / 100, user_id=f"u{n % users}", gold_sessions=(f"s{n % 15}", "other"))
        for name in ("naive_rag", "windows")
        for n in range(60)
    ]
    choice = choice_of(records)
    # n % 4 and n % 15 make 60 pairs: a session of another user is another session.
    assert (choice.clustered_by, choice.clusters) == (by, clusters)
    assert any("same session" in note for note in choice.notes) == (by == "gold session")


def test_questions_without_a_gold_session_stand_alone() -> None:
    records = [asked(n, cell(name), 0.5, gold_sessions=()) for name in ("naive_rag", "windows") for n in range(9)]
    assert choice_of(records).clusters == 9


def test_few_groups_of_questions_can_show_nothing_and_that_is_said() -> None:
    few = choice_of(gaining(questions=5, budgets=[300], windows=0.3))  # 2 / 2^5 = 0.0625
    assert few.recommended is None
    assert "Of 5 groups of questions no test can show anything: ask about more sessions." in few.notes
    assert choice_of(gaining(questions=6, budgets=[300], windows=0.3)).recommended == "windows"  # 2 / 2^6 = 0.03


def test_the_same_seed_gives_the_same_choice() -> None:
    records = gaining(noise=0.3, windows=0.05)
    assert choice_of(records) == choice_of(records[::-1])
    assert choice_of(records) != choice_of(records, seed=1)


# --- what is compared


def test_words_count_where_a_design_rewrites() -> None:
    assert choice_of(gaining(windows=0.1)).measure == "coverage:verbatim"
    records = gaining() + [asked(n, cell("pages", b), 0.0, kind="summary") for b in BUDGETS for n in range(30)]
    choice = choice_of(records)
    assert choice.measure == "coverage:words"
    assert standing(choice, "naive_rag").mean == pytest.approx(0.25, abs=0.01)
    assert any("share of the turn's content words" in note for note in choice.notes)
    assert any("in other words is valued too low" in note for note in choice.notes)


def test_verdicts_count_where_answers_were_judged() -> None:
    records = [
        asked(n, cell(name, b), 0.5, verdicts={"strict": "correct" if n % 10 < right else "incorrect"})
        for name, right in (("naive_rag", 3), ("windows", 8))
        for b in BUDGETS
        for n in range(40)
    ]
    choice = choice_of(records)
    assert choice.measure == "accuracy:strict"
    assert choice.recommended == "windows"
    assert standing(choice, "windows").mean == pytest.approx(0.8)


def test_verdicts_that_cannot_be_read_choose_nothing() -> None:
    verdicts = ["correct"] * 9 + ["unscored"]
    records = [
        r.model_copy(update={"verdicts": {"strict": verdicts[place % 10]}})
        for place, r in enumerate(gaining(questions=40, windows=0.3))
    ]
    choice = choice_of(records)
    assert choice.recommended is None
    assert choice.reason.startswith("Nothing can be said: ")


def test_a_design_that_fails_too_often_is_not_recommended() -> None:
    def broken(failures: int) -> Choice:
        kept = [r for r in gaining(windows=0.2) if r.cell.strategy == "naive_rag" or int(r.question_id[1:]) >= failures]
        return choice_of([*kept, *(failed(n, cell("windows", b)) for b in BUDGETS for n in range(failures))])

    assert broken(3).recommended == "windows"
    choice = broken(4)
    assert (choice.recommended, choice.needed) == (None, None)
    assert choice.reason.endswith("; but it failed for too many questions to be recommended.")
    assert "windows failed for more than 10% of the questions and is not recommended." in choice.notes
    assert standing(choice, "windows").budgets[0].failed == 4


def test_depths_the_oracle_and_other_budgets_are_left_out() -> None:
    records = gaining(budgets=[300], windows=0.1)
    other = [
        Cell(strategy="naive_rag", retriever="bm25", depth=5),
        Cell(strategy="naive_rag", retriever="oracle"),
        cell("windows", 5000),
        cell("windows", None),
    ]
    contest = contest_of(results([*records, *(asked(1, where, 0.1) for where in other)]), "naive_rag")
    assert contest.grid == {
        "naive_rag": {300: "naive_rag/own/budget=300"},
        "windows": {300: "windows/own/budget=300"},
    }


def test_no_limit_is_the_last_budget() -> None:
    records = [asked(n, cell(name, b), 0.5) for name in ("naive_rag", "windows") for b in (None, 300) for n in range(8)]
    choice = choice_of(records)
    assert [row.budget for row in standing(choice, "windows").budgets] == [300, None]
    assert "without a limit" in choice.reason


def test_a_design_twice_at_a_budget_is_refused() -> None:
    records = [*gaining(windows=0.1), asked(1, cell("windows", retriever="bm25"), 0.1)]
    with pytest.raises(InvalidInputError, match="one design at one budget"):
        choice_of(records)


def test_a_default_without_records_is_refused() -> None:
    with pytest.raises(InvalidInputError) as caught:
        choice_of(gaining(windows=0.1), default="full_context")
    assert "naive_rag, windows" in (caught.value.hint or "")


def test_drafted_questions_are_counted_and_said() -> None:
    records = [r.model_copy(update={"question_type": "drafted"}) for r in gaining(questions=8, windows=0.1)]
    choice = choice_of(records)
    assert choice.drafted == 8
    assert any(note.startswith("8 of the questions were drafted") for note in choice.notes)
    assert choice_of(gaining(questions=8, windows=0.1)).drafted == 0


def test_a_default_that_has_nearly_all_is_said() -> None:
    records = [asked(n, cell(name, b), 0.99) for name in ("naive_rag", "pages") for b in BUDGETS for n in range(8)]
    assert any("little that could be better" in note for note in choice_of(records).notes)
    assert not any("little that could be better" in note for note in choice_of(gaining(pages=0.1)).notes)
