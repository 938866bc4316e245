"""The report of an experiment, made from its records alone: one Markdown file with its plots, and one HTML page.

The same records, baseline and seed give the same bytes. The page needs nothing but itself: style and plots are inside,
there are no scripts, and it follows the reader's light or dark setting.
"""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import numpy as np

from backread.bench.extra import needs
from backread.bench.matching import default_baseline
from backread.bench.plots import INK
from backread.bench.reporting.cells import (
    failure_section,
    measure_section,
    quality_section,
    summary_section,
    type_section,
)
from backread.bench.reporting.compared import compare, loss_section, matched_section, paired_section
from backread.bench.reporting.costs import cost_section
from backread.bench.reporting.layout import Section, Table
from backread.bench.reporting.published import published_section
from backread.bench.reporting.ran import legend_section, run_section, status_section
from backread.bench.reporting.view import View
from backread.bench.results import Results, read_results

__all__ = ["sections", "write_report"]

_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]<>#|])")


def write_report(folder: Path, *, baseline: str | None = None, seed: int = 0) -> tuple[Path, Path]:
    """Write `report.md`, its plots (`report-….svg`) and `report.html` into an experiment's folder; gives both pages.

    Args:
        folder: of the experiment.
        baseline: what cells are compared with: a cell's name, or a design and retriever ("naive_rag/bm25"), whose cell
            of the same depth and budget is taken for each; the first of the spec when None.
        seed: of the draws behind intervals of differences.

    Raises:
        InvalidInputError: there are no records, they can't be read, or the baseline is not among them.
        MissingExtraError: the extra `bench` isn't installed.
    """
    needs("jinja2", "matplotlib", "scipy")
    results = read_results(folder)
    parts = sections(results, baseline=baseline, seed=seed)
    for plot in (plot for part in parts for plot in part.plots):
        (folder / f"report-{plot.name}.svg").write_text(plot.svg, encoding="utf-8")
    markdown, page = folder / "report.md", folder / "report.html"
    markdown.write_text(_markdown(results, parts), encoding="utf-8")
    page.write_text(_page(results, parts), encoding="utf-8")
    return markdown, page


def sections(results: Results, *, baseline: str | None = None, seed: int = 0) -> tuple[Section, ...]:
    """The parts of a report, in order; see `write_report`."""
    view = View(results)
    rng = np.random.default_rng(seed)
    chosen = default_baseline(view.cells) if baseline is None else baseline
    compared = compare(view, chosen, rng)
    found = (
        status_section(view),
        summary_section(view),
        loss_section(compared),
        paired_section(compared),
        matched_section(view, chosen, rng),
        type_section(view),
        failure_section(view),
        quality_section(view),
        cost_section(view),
        measure_section(view),
        published_section(view),
        run_section(view),
        legend_section(view),
    )
    return tuple(part for part in found if part is not None)


def _title(results: Results) -> str:
    return str(results.manifest.spec.get("name") or "experiment")


def _subtitle(results: Results) -> str:
    """The data and how much of it."""
    name = results.manifest.dataset.get("name", "")
    return f"{name}, {len(results.question_ids):,} questions in {len(results.cells):,} cells"


def _notes(results: Results) -> tuple[str, ...]:
    """What must stand beside every figure."""
    return tuple(map(str, results.manifest.dataset.get("notes") or ()))


# --- Markdown


def _markdown(results: Results, parts: Iterable[Section]) -> str:
    lines = [f"# {_text(_title(results))}", "", _text(_subtitle(results)), ""]
    lines += [line for note in _notes(results) for line in (f"> {_text(note)}", ">")][:-1]
    for part in parts:
        lines += ["", f"## {_text(part.title)}"]
        for paragraph in part.paragraphs:
            lines += ["", _text(paragraph)]
        for plot in part.plots:
            lines += ["", f"![{_text(plot.caption)}](report-{plot.name}.svg)"]
        for found in part.tables:
            lines += ["", *_table(found)]
    return "\n".join(lines) + "\n"


def _table(found: Table) -> Iterator[str]:
    if found.title:
        yield f"### {_text(found.title)}"
        yield ""
    yield _line(map(_text, found.columns))
    yield _line("--:" if number in found.numbers else "---" for number in range(len(found.columns)))
    for row in found.rows:
        yield _line(map(_text, row))
    if found.note:
        yield ""
        yield _text(found.note)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


# --- HTML


def _page(results: Results, parts: Iterable[Section]) -> str:
    import jinja2

    template = importlib.resources.files("backread.bench").joinpath("templates", "report.html.j2").read_text("utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["anchor"] = _anchor
    environment.filters["inline"] = _inline
    given = {
        "title": _title(results),
        "subtitle": _subtitle(results),
        "notes": _notes(results),
        "status": results.status,
        "parts": tuple(parts),
    }
    return environment.from_string(template).render(given) + "\n"


def _anchor(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _inline(svg: str) -> object:
    """A plot for the page: in the colour of its text, and safe, as it is our own."""
    import markupsafe

    return markupsafe.Markup(svg.replace(INK, "currentColor"))
