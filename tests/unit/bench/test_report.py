"""The report of an experiment: what stands in it, that it stands alone, and that it is the same every time."""

from __future__ import annotations

import html
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest
from bench_samples import FANCY, PLAIN, built, failed, judged, large, manifest, question, results

from backread.bench.records import ConfigRecord, Manifest, Record
from backread.bench.report import sections, write_report
from backread.bench.reporting.layout import Section, Table
from backread.bench.results import Results
from backread.errors import InvalidInputError

VOID = {"meta", "br", "img", "hr"}


def kept(folder: Path, given: Manifest, records: Iterable[Record]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "manifest.json").write_text(given.model_dump_json(), encoding="utf-8")
    lines = [json.dumps(record.model_dump(mode="json")) + "\n" for record in records]
    (folder / "records.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


def of(found: Results) -> list[Record]:
    configs = [ConfigRecord(spec_hash="s1", config_hash=k, config=dict(v)) for k, v in found.configs.items()]
    return [*configs, *found.builds, *(r for records in found.questions.values() for r in records.values())]


class Page(HTMLParser):
    """Checks that tags are closed in order; gathers ids, links and what is loaded from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.tags: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attributes:
            if name == "id":
                self.ids.append(value or "")
            if name == "href" and tag == "a":
                self.links.append(value or "")
            elif name in ("src", "href", "data") and not (value or "").startswith("#"):
                self.loaded.append(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def small() -> Results:
    return large(questions=48, users=6)


@pytest.fixture(scope="module")
def written(small: Results, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_report(kept(tmp_path_factory.mktemp("report"), small.manifest, of(small)))


@pytest.fixture(scope="module")
def parts(small: Results) -> dict[str, Section]:
    return {part.title: part for part in sections(small)}


def rows(table: Table) -> list[dict[str, str]]:
    assert len(set(table.columns)) == len(table.columns)
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def titled(part: Section, title: str) -> Table:
    return next(table for table in part.tables if table.title == title)


def text_of(found: Sequence[Section]) -> str:
    cells = [cell for part in found for table in part.tables for row in table.rows for cell in row]
    return "\n".join([*(paragraph for part in found for paragraph in part.paragraphs), *cells])


# --- the files


def test_the_page_stands_alone(written: tuple[Path, Path]) -> None:
    text = written[1].read_text(encoding="utf-8")
    page = Page(text)
    assert page.loaded == []
    assert "script" not in page.tags
    assert page.tags.count("svg") == 7  # accuracy and coverage by budget and depth, types, two splits
    assert len(set(page.ids)) == len(page.ids)
    assert page.links
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert not re.search(r"url\((?!#)", text)
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert "currentColor" in text
    assert "#7d7d7d" not in text, "plots take the page's colour"


def test_the_markdown_shows_the_plots_beside_it(written: tuple[Path, Path]) -> None:
    markdown = written[0].read_text(encoding="utf-8")
    shown = re.findall(r"\]\((report-[a-z-]+\.svg)\)", markdown)
    assert len(shown) == 7
    for name in shown:
        assert ET.fromstring((written[0].parent / name).read_text(encoding="utf-8")).tag.endswith("svg")
    for block in re.findall(r"(?:^\|.*\|\n)+", markdown, re.M):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(widths) == 1, "every row of a table has as many cells"
    assert markdown.startswith("# made-up\n")
    assert "> Adversarial questions are left out" in markdown


def test_the_same_records_give_the_same_bytes(small: Results, written: tuple[Path, Path], tmp_path: Path) -> None:
    again = write_report(kept(tmp_path, small.manifest, of(small)[::-1]))
    for first, second in zip(written, again, strict=True):
        assert first.read_bytes() == second.read_bytes()
    for plot in written[0].parent.glob("*.svg"):
        assert plot.read_bytes() == (tmp_path / plot.name).read_bytes()


def test_no_report_without_records(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="holds no experiment"):
        write_report(tmp_path)
    with pytest.raises(InvalidInputError, match="no record of a question"):
        write_report(kept(tmp_path, manifest(), []))
    assert not (tmp_path / "report.md").exists()


def test_a_baseline_that_is_not_there_is_refused(small: Results, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="no cell of 'mem0'"):
        write_report(kept(tmp_path, small.manifest, of(small)), baseline="mem0")


def test_text_of_records_is_text_and_nothing_else(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script> | [x](y) `z` *b*\n# heading"
    records: list[Record] = [
        question(1, question_type=evil, measures={"coverage:words": 0.5}, gold_turns=("t",), tokens=5),
        question(2, degraded=(("dense", evil, 1),), models={"answer": evil}, tokens=5),
    ]
    given = manifest(notes=[evil]).model_copy(update={"command": evil})
    markdown, page = write_report(kept(tmp_path, given, records))
    text = page.read_text(encoding="utf-8")
    assert "script" not in Page(text).tags
    assert html.escape(evil, quote=False).split("\n")[0] in text
    plain = markdown.read_text(encoding="utf-8")
    assert "<script" not in plain.replace("\\<", "")
    assert "\\<script\\>alert(1)\\</script\\> \\| \\[x\\](y) \\`z\\` \\*b\\* \\# heading" in plain
    assert not re.search(r"^# heading", plain, re.M)


# --- what stands in it


def test_parts_are_in_order(parts: dict[str, Section]) -> None:
    assert list(parts) == [
        "Status",
        "Summary",
        "Where the baseline loses",
        "Paired comparisons",
        "Matched comparisons",
        "By type of question",
        "Where it fails",
        "Costs",
        "All measures",
        "Published figures, LoCoMo",
        "What was run",
        "Legend",
    ]


def test_every_figure_says_over_how_many(small: Results, parts: dict[str, Section]) -> None:
    for row in rows(parts["Summary"].tables[0]):
        for name, cell in row.items():
            if name.endswith("(n)") and cell != "–":
                assert re.fullmatch(r"-?\d\.\d{3} \[-?\d\.\d{3}, -?\d\.\d{3}\] \(\d+\)", cell), (name, cell)
    accuracy = titled(parts["Summary"], "Accuracy")
    for row in rows(accuracy):
        assert int(row["scored"]) + int(row["unscored"]) + int(row["failed"]) == int(row["all"]) == 48
        assert float(row["lower bound"]) == pytest.approx(int(row["correct"]) / 48, abs=5e-4)
        assert row["accuracy"].startswith(f"{int(row['correct']) / int(row['scored']):.3f}")
        assert row["undisputed (n)"] != "–"
    assert len(accuracy.rows) == 2 * len(small.cells)


def test_columns_have_names_of_their_own(parts: dict[str, Section]) -> None:
    assert sum(len(rows(table)) for part in parts.values() for table in part.tables) > 500


def test_what_was_run_can_be_run_again(parts: dict[str, Section]) -> None:
    told = {row["what"]: row["which"] for row in rows(parts["What was run"].tables[0])}
    assert told["command"] == "backread bench run made-up.toml"
    assert told["data"] == f"locomo10.json, sha256 {'d' * 64}"
    assert told["questions"] == "48 with a record, 48 in the data"
    assert (told["histories"], told["turns of"], told["what is ranked"]) == ("6", "all roles", "turn")
    assert told["gold labels"] == "never handed to a design; a cell of the oracle ranks by them"
    assert (told["model: answer"], told["prompt: judge:strict"]) == ("tiny-1b", "c3d4")
    settings = {
        row["design"]: row["settings"] for row in rows(titled(parts["What was run"], "Settings of the designs"))
    }
    assert settings["naive_rag/bm25"] == 'depth null or 10 or 3 or 5, retriever "bm25", strategy "naive_rag"'


def test_matched_comparisons_pair_the_same_retriever(parts: dict[str, Section]) -> None:
    matched = parts["Matched comparisons"]
    depth = rows(titled(matched, "Matched depth: accuracy:strict"))
    assert [(row["at"], row["retriever"]) for row in depth[:3]] == [
        ("depth=3", "bm25"),
        ("depth=3", "hybrid"),
        ("depth=3", "mean of 2"),
    ]
    average = rows(titled(matched, "Matched budget on average: accuracy:strict"))
    # depths 3, 5 and 10 of 95 tokens a turn are matched by 6, 10 and 20 of 50 tokens an entry
    found = [row["tokens"].split(":")[0] for row in average if row["retriever"] == "bm25"]
    assert found == ["depth 6", "depth 10", "depth 20"]
    earned = rows(titled(matched, "Break-even"))
    assert len(earned) == 6
    for row in earned:
        build, first, second, questions = (
            float(row[name].replace(",", ""))
            for name in ("tokens to build a history", "baseline: evidence", "evidence", "questions to break even")
        )
        assert questions == pytest.approx(build / (first - second), rel=0.02)  # both are printed as whole tokens


def test_published_figures_say_whether_they_are_possible(parts: dict[str, Section]) -> None:
    published = parts["Published figures, LoCoMo"]
    table = titled(published, "T2Mem, arXiv 2610.13348")
    lazymem = [row for row in rows(table) if (row["method"], row["model"]) == ("LazyMem", "Qwen3.5-27B")]
    assert len(lazymem) == 1
    assert lazymem[0]["possible"].startswith("no (")
    assert lazymem[0]["temporal (k/n)"] == "62.50 (200/320)"
    assert lazymem[0]["overall (k/n)"] == "69.84 (1,072/1,535)"
    assert "62.50 is 200/320" in table.note
    assert {row["judge"] for row in rows(titled(published, "Ours"))} == {"strict", "lenient"}


def test_the_legend_defines_every_measure_there_is(small: Results, parts: dict[str, Section]) -> None:
    named = {row["name"] for row in rows(parts["Legend"].tables[0])}
    measured = {name for cell in small.cells for record in small.ok(cell) for name in record.measures}
    assert {name.split("@")[0] + ("@k" if "@" in name else "") for name in measured} <= named


# --- warnings and status


def test_a_judge_that_lets_too_much_pass_is_warned_of() -> None:
    records = [
        judged(n, "correct", user_id=f"u{n % 6}", control={"strict": "correct" if n < 3 else "incorrect"})
        for n in range(20)
    ]
    told = sections(results(records))[0].paragraphs
    assert "Warning: the strict judge let 15.0% of 20 vague answers pass; the limit is 10%." in told


def test_an_accuracy_above_what_the_key_allows_is_warned_of() -> None:
    # Two of ten gold answers are disputed: at most 0.8 can be right for good. One cell has 9 of 10, the other 8.
    records = [judged(n, "correct" if n < 9 else "incorrect", user_id=f"u{n % 6}") for n in range(10)]
    records += [judged(n, "correct" if n < 8 else "incorrect", FANCY, user_id=f"u{n % 6}") for n in range(10)]
    disputed = {"q000": "TEMPORAL", "q005": "AMBIGUOUS", "q777": "AMBIGUOUS"}
    told = sections(results(records, disputed=disputed))[0].paragraphs
    assert any("gold answers of 2 of 10 questions are disputed: an accuracy above 0.800" in each for each in told)
    assert [each for each in told if each.startswith("Warning")] == [
        f"Warning: {PLAIN.name} is above that by the strict judge, 0.900."
    ]


# EVL-09
def test_failures_stand_beside_the_figures_with_their_reasons() -> None:
    found = sections(results([*(judged(n, "correct") for n in range(7)), failed(7), failed(8), failed(9)]))
    status = found[0]
    assert status.paragraphs[0].startswith("Status: degraded")
    assert "3 of 10 records failed" in status.paragraphs[1]
    assert titled(status, "Failures").rows == (
        ("answer", "ModelRequestError", "the endpoint is down", "q007, q008, q009", "3", "1"),
    )
    accuracy = rows(titled(found[1], "Accuracy"))[0]
    assert (accuracy["correct"], accuracy["scored"], accuracy["failed"], accuracy["all"]) == ("7", "7", "3", "10")
    assert (accuracy["accuracy"], accuracy["lower bound"]) == ("1.000", "0.700")


def test_a_failed_experiment_says_so_in_both_files(tmp_path: Path) -> None:
    records = [judged(n, "unscored" if n < 5 else "correct", user_id=f"u{n % 6}") for n in range(100)]
    for path in write_report(kept(tmp_path, manifest(), records)):
        text = path.read_text(encoding="utf-8")
        assert "Status: failed" in text
        assert "5 of 100 verdicts of the strict judge" in text


def test_one_history_is_warned_of_and_nothing_is_better() -> None:
    records = [
        question(n, cell, tokens=9, measures={"F1": float(cell == FANCY)}) for n in range(9) for cell in (PLAIN, FANCY)
    ]
    found = sections(results(records))
    assert "few histories are asked about (1), too few" in text_of(found)
    assert "better" not in {row["is"] for row in rows(titled(found[3], "F1"))}


# EVL-05
def test_without_a_judge_no_retrieval_figure_is_an_accuracy() -> None:
    records = [
        question(1, gold_turns=("t",), tokens=50, measures={"turn:R@2": 1.0, "coverage:words": 0.5}),
        question(2, gold_turns=("t", "u"), tokens=50, measures={"turn:R@2": 0.5, "coverage:words": 0.5}),
        question(3, abstention=True, tokens=50, measures={"turn:R@2": None, "coverage:words": None}),
        question(4, tokens=50, measures={"turn:R@2": None, "coverage:words": None}),
    ]
    found = {part.title: part for part in sections(results(records, benchmark="locomo"))}
    assert not any(title.startswith("Published") for title in found)
    ranking = rows(titled(found["All measures"], "Rankings"))[0]
    assert ranking == {
        "measure": "turn:R@2",
        "gold items": "turn",
        "left out": "1 abstention, 1 no gold",
        "k": "2",
        "plain/bm25 (n)": "0.750 (2)",
    }
    shown = [plot.caption for part in found.values() for plot in part.plots]
    assert shown
    assert not any("ccuracy" in caption for caption in shown)


def test_memory_quality_has_a_part_when_it_was_graded(parts: dict[str, Section]) -> None:
    records = [question(n, tokens=5, quality={"detail": grade}) for n, grade in enumerate((4, 1, None))]
    quality = next(part for part in sections(results(records)) if part.title == "Memory quality")
    assert rows(quality.tables[0]) == [{"cell": PLAIN.name, "detail (n)": "2.500 (2)"}]
    assert "Memory quality" not in parts


def test_the_baseline_can_be_chosen() -> None:
    records = [
        judged(n, "correct" if cell == FANCY else "incorrect", cell, user_id=f"u{n}")
        for n in range(8)
        for cell in (PLAIN, FANCY)
    ]
    first, second = (sections(results(records), baseline=name) for name in (None, "fancy/bm25"))
    assert "another cell is better in 2," in first[2].paragraphs[0]  # over all questions and in the one type
    assert [row["cell"] for row in rows(first[2].tables[0])[:1]] == [FANCY.name]
    assert "better in 0," in second[2].paragraphs[0]
    assert second[2].tables == ()


def test_a_design_that_built_nothing_has_no_break_even() -> None:
    records = [judged(1, "correct", PLAIN, tokens=200), judged(1, "correct", FANCY, tokens=100), built("ann", "other")]
    assert not any("Break-even" in table.title for part in sections(results(records)) for table in part.tables)
