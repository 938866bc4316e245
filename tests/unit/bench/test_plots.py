"""Plots are SVG that can be read, the same every time, and say what the rows say."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest

from backread.bench.plots import INK, Bars, Line, Mark, Stack, bar_plot, stack_plot, token_plot
from backread.bench.stats.intervals import Interval

SVG = "{http://www.w3.org/2000/svg}"


def about(mean: float, reach: float = 0.05) -> Interval:
    return Interval(mean, mean - reach, mean + reach, 40, 8, "m")


def line(name: str, place: int, *points: tuple[float, float], front: bool = False, reference: bool = False) -> Line:
    return Line(name, tuple(Mark(tokens, about(value), front) for tokens, value in points), place, reference)


LINES = [line("rag/bm25", 0, (330, 0.5), (500, 0.6)), line("mem/<own> & more", 1, (320, 0.55), (510, 0.7), front=True)]


def words(svg: str) -> list[str]:
    return ["".join(text.itertext()) for text in ET.fromstring(svg).iter(f"{SVG}text")]


def numbers(path: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", path)]


GROUPS = ["x (n=3)", "y (n=4)"]
PLOTS: dict[str, Callable[[], str]] = {
    "tokens": lambda: token_plot(LINES, value="accuracy"),
    "reference": lambda: token_plot([*LINES, line("rag/oracle", 2, (100, 0.9), reference=True)], value="accuracy"),
    "log": lambda: token_plot([line("full/own", 0, (20_000, 0.6)), line("rag/bm25", 1, (500, 0.5))], value="accuracy"),
    "one": lambda: token_plot([line("rag/bm25", 0, (500, 0.5))], value="accuracy"),
    "bars": lambda: bar_plot(
        [Bars("a", dict(zip(GROUPS, [about(0.5), about(0.2)], strict=True)), 0)], GROUPS, value="v"
    ),
    "stacks": lambda: stack_plot(
        [Stack("a", {"miss": 3, "loss": 1}), Stack("b", {"miss": 0, "loss": 0})], of="answers"
    ),
}


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_is_whole_svg_and_the_same_every_time(name: str) -> None:
    svg = PLOTS[name]()
    assert ET.fromstring(svg).tag == f"{SVG}svg"
    assert svg == PLOTS[name]()
    assert not re.search(r"20\d\d-\d\d-\d\d|Matplotlib", svg), "a date or a version would change the bytes"
    identities = re.findall(r'id="([^"]+)"', svg)
    assert len(set(identities)) == len(identities)
    assert all(re.search(rf"#{re.escape(each)}\b", svg) for each in identities), "ids that nothing refers to"
    assert not re.search(r"<path[^>]*fill: #ffffff", svg), "the ground is transparent"


def test_plots_of_one_page_share_no_ids() -> None:
    first, second = (set(re.findall(r'id="([^"]+)"', token_plot(LINES, value="v", salt=salt))) for salt in "ab")
    assert first
    assert not first & second


def test_names_and_axes_are_text() -> None:
    found = words(PLOTS["tokens"]())
    assert {"rag/bm25", "mem/<own> & more", "accuracy", "tokens of evidence per question"} <= set(found)
    assert "on the Pareto front" in found
    assert "on the Pareto front" not in words(PLOTS["log"]())


def test_few_lines_are_named_at_their_ends_and_others_in_a_legend() -> None:
    for name in ("tokens", "reference"):
        found = words(PLOTS[name]())
        assert [found.count(each.name) for each in LINES] == [1, 1], "named once, in one of the two ways"
    many = [line(f"d{n}/bm25", n, (330 + n, 0.5), (500 + n, 0.6)) for n in range(6)]
    assert sum(word.endswith("/bm25") for word in words(token_plot(many, value="v"))) == 6


def test_names_at_ends_do_not_overlap() -> None:
    close = [line(f"d{n}", n, (330, 0.5), (500, 0.6 + n / 1000)) for n in range(4)]
    root = ET.fromstring(token_plot(close, value="v"))
    heights = [float(text.attrib["y"]) for text in root.iter(f"{SVG}text") if "".join(text.itertext()).startswith("d")]
    apart = [second - first for first, second in zip(sorted(heights), sorted(heights)[1:], strict=False)]
    assert len(heights) == 4
    assert min(apart) > 9, "nine points are the size of the letters"


def test_a_wide_range_of_tokens_is_logarithmic_and_written_out() -> None:
    assert {"500", "1,000", "2,000", "5,000", "10,000", "20,000"} <= set(words(PLOTS["log"]()))


def test_colour_follows_the_place_and_not_the_order() -> None:
    alone = token_plot([line("b", 1, (330, 0.5), (500, 0.6))], value="v")
    assert "#d55e00" in alone
    assert "#0072b2" not in alone
    both = token_plot([line("b", 1, (330, 0.5), (500, 0.6)), line("a", 0, (330, 0.5), (500, 0.6))], value="v")
    assert "#d55e00" in both
    assert "#0072b2" in both


def test_a_colour_that_comes_again_is_told_apart() -> None:
    first, ninth = (token_plot([line("a", place, (330, 0.5), (500, 0.6))], value="v") for place in (0, 8))
    assert "#0072b2" in first
    assert "#0072b2" in ninth
    assert first != ninth


def test_what_has_no_interval_is_drawn_without_one() -> None:
    bare = Interval(0.5, None, None, 1, 1, "m")
    with_it, without = (
        bar_plot([Bars("a", {"x": interval}, 0)], ["x"], value="v").count("<use") for interval in (about(0.5), bare)
    )
    assert with_it - without == 2  # the caps


def test_axes_are_of_one_grey_that_a_page_can_replace() -> None:
    for name, plot in PLOTS.items():
        svg = plot()
        assert INK in svg, name
        text_colours = set(re.findall(r"<text[^>]*fill: (#[0-9a-f]{6})", svg))
        assert text_colours <= {INK, "#000000", "#ffffff", "#0072b2", "#d55e00"}, name


def test_marks_at_the_same_tokens_stand_beside_each_other() -> None:
    same = [line(f"d{n}", n, (330, 0.5), (500, 0.6), front=True) for n in range(3)]
    root = ET.fromstring(token_plot(same, value="v", salt="s"))
    rings = [
        float(use.attrib["x"])
        for use in root.iter(f"{SVG}use")
        if "x" in use.attrib and INK in use.attrib.get("style", "")
    ]
    assert len(set(rings)) >= 6


def test_bars_say_their_groups_and_stand_for_their_values() -> None:
    svg = bar_plot(
        [Bars("a", {"x": about(0.5), "y": about(0.25)}, 0), Bars("b", {"x": Interval(None, None, None, 0, 0, "m")}, 1)],
        ["x", "y"],
        value="accuracy",
    )
    assert {"x", "y", "a", "b", "accuracy"} <= set(words(svg))
    filled = re.findall(r'<path d="([^"]+)"[^>]*clip-path[^>]*style="fill: #0072b2', svg)
    heights = [max(ys) - min(ys) for ys in ([*numbers(path)][1::2] for path in filled)]
    assert len(heights) == 2
    assert heights[0] / heights[1] == pytest.approx(2, rel=1e-3)


def test_long_group_names_are_broken() -> None:
    group = "single-session-preference (n=30)"
    found = words(bar_plot([Bars("a", {group: about(0.5)}, 0)], [group], value="v"))
    assert {"single-", "session-", "preference", "(n=30)"} <= set(found)


def test_names_are_no_formulas() -> None:
    name = "$x^2 and $5"
    plots = [
        token_plot([line(name, 0, (330, 0.5)), line("oracle", 1, (300, 0.5), reference=True)], value=name),
        token_plot([line(name, 0, (330, 0.5))], value="v"),
        bar_plot([Bars(name, {name: about(0.5)}, 0)], [name], value=name),
        stack_plot([Stack("a", {name: 1})], of=name),
    ]
    assert [sum("$x^2" in word for word in words(plot)) for plot in plots] == [2, 1, 3, 2]


def test_stacks_carry_their_counts_and_what_they_are_of() -> None:
    found = words(
        stack_plot([Stack("a", {"miss": 1500, "loss": 500, "tiny": 1}), Stack("b", {"miss": 0})], of="wrong answers")
    )
    assert {"1,500", "500", "a (n=2,001)", "b (n=0)", "share of wrong answers", "miss", "loss", "tiny"} <= set(found)
    assert "1" not in found  # no room for it


def test_the_neutral_part_has_no_colour_of_its_own() -> None:
    svg = stack_plot([Stack("a", {"miss": 1, "untold": 1})], of="answers", neutral="untold")
    assert "#0072b2" in svg
    assert "#a9a9a9" in svg
    assert "#d55e00" not in svg
