"""Plots of experiments as SVG text: the same rows give the same bytes, and they read on light and on dark ground.

Figures are drawn without pyplot, so nothing is kept between calls. Axes and text are of one grey, `INK`, that a page
may replace by its own colour; the ground is transparent. Colours are those of Okabe and Ito, which people who confuse
colours can tell apart, and lines differ by marker and dash as well.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from backread.bench.extra import needs
from backread.bench.stats.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["INK", "Bars", "Line", "Mark", "Stack", "bar_plot", "stack_plot", "token_plot"]

INK: Final = "#7d7d7d"
"""The grey of axes and text, found nowhere else in a plot."""

_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#8c6d31", "#9467bd")
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES: Final = ("-", "--", "-.", ":")
_DARK: Final = frozenset(("#0072b2", "#8c6d31", "#9467bd"))
"""Fills that white text reads better on."""

_NEUTRAL: Final = "#a9a9a9"
_DIRECT: Final = 4
"""Lines up to which each is named at its end, and not in a legend."""

_WIDTH: Final = 7.5
_ROOM: Final = 0.05
"""Share of a bar that holds a number."""

_STEP: Final = 0.012
"""How far marks at the same tokens stand apart, as a share of the axis."""

_LOG_FROM: Final = 6.0
"""Ratio of the largest to the smallest number of tokens from which their axis is logarithmic."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A point of a line: tokens per question, a value with its interval, and whether it is on the Pareto front."""

    tokens: float
    value: Interval
    on_front: bool


@dataclass(frozen=True, slots=True)
class Line:
    """One design and retriever.

    `place` chooses colour, marker and dash; the same one in every plot of a report. A reference (the oracle) is drawn
    hollow and joined to nothing.
    """

    name: str
    marks: tuple[Mark, ...]
    place: int
    reference: bool = False


@dataclass(frozen=True, slots=True)
class Bars:
    """The bars of one cell, by group; a group without a value has none. `place` chooses the colour."""

    name: str
    values: Mapping[str, Interval]
    place: int


@dataclass(frozen=True, slots=True)
class Stack:
    """The parts of one cell; drawn as shares of their sum, with their counts."""

    name: str
    parts: Mapping[str, int]


def token_plot(lines: Sequence[Line], *, value: str, salt: str = "tokens") -> str:
    """A value against tokens per question, one line a design and retriever; marks on the Pareto front are ringed.

    Marks at the same tokens are drawn a little beside each other, in the order of the lines.

    Args:
        lines: what is drawn.
        value: what the value is, for its axis.
        salt: of the ids inside; another one for each plot of a page.

    Raises:
        MissingExtraError: matplotlib isn't installed.
    """
    figure, axes = _figure(4.2)
    tokens = [mark.tokens for line in lines for mark in line.marks]
    _token_axis(axes, tokens)
    for number, line in enumerate(lines):
        _draw_line(axes, line, _aside(tokens, number - (len(lines) - 1) / 2))
    axes.set_xlabel("tokens of evidence per question")
    axes.set_ylabel(_plain(value))
    if len(lines) <= _DIRECT and not any(line.reference for line in lines):
        _name_ends(axes, lines)
        _legend(axes, below=True)
    else:
        _legend(axes)
    return _svg(figure, salt)


def bar_plot(bars: Sequence[Bars], groups: Sequence[str], *, value: str, salt: str = "types") -> str:
    """Bars of shares, 0 to 1, with intervals, in groups; one colour a cell.

    Args:
        bars: cells, in the order of their bars.
        groups: names of groups, in order.
        value: what the value is, for its axis.
        salt: see `token_plot`.

    Raises:
        MissingExtraError: matplotlib isn't installed.
    """
    figure, axes = _figure(3.6)
    width = 0.8 / max(1, len(bars))
    for number, cell in enumerate(bars):
        there = [(place, cell.values[group]) for place, group in enumerate(groups) if group in cell.values]
        known = [(place, interval, interval.mean) for place, interval in there if interval.mean is not None]
        axes.bar(
            [place - 0.4 + width * (number + 0.5) for place, _, _ in known],
            [mean for _, _, mean in known],
            width * 0.9,
            color=_COLOURS[cell.place % len(_COLOURS)],
            label=_plain(cell.name),
            yerr=_reach([interval for _, interval, _ in known]),
            error_kw={"ecolor": INK, "elinewidth": 1, "capsize": 2},
        )
    axes.set_xticks(range(len(groups)), [_wrapped(group) for group in groups])
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel(_plain(value))
    axes.set_ylim(0, 1)
    _legend(axes)
    return _svg(figure, salt)


def stack_plot(stacks: Sequence[Stack], *, of: str, neutral: str = "", salt: str = "split") -> str:
    """Horizontal bars of parts as shares of their sum, with the count in each part that has room for it.

    Args:
        stacks: cells, from the top.
        of: what the whole is, for the axis ("wrong answers").
        neutral: the part that is drawn without a colour of its own.
        salt: see `token_plot`.

    Raises:
        MissingExtraError: matplotlib isn't installed.
    """
    figure, axes = _figure(1.0 + 0.36 * len(stacks))
    parts = list(dict.fromkeys(part for stack in stacks for part in stack.parts))
    totals = [sum(stack.parts.values()) for stack in stacks]
    left = [0.0] * len(stacks)
    for number, part in enumerate(parts):
        fill = _NEUTRAL if part == neutral else _COLOURS[number % len(_COLOURS)]
        counts = [stack.parts.get(part, 0) for stack in stacks]
        shares = [count / total if total else 0.0 for count, total in zip(counts, totals, strict=True)]
        axes.barh(range(len(stacks)), shares, left=left, height=0.74, color=fill, label=_plain(part))
        for place, (count, share) in enumerate(zip(counts, shares, strict=True)):
            if share >= _ROOM:
                ink = "#ffffff" if fill in _DARK else "#000000"
                axes.text(left[place] + share / 2, place, f"{count:,}", ha="center", va="center", fontsize=8, color=ink)
        left = [before + share for before, share in zip(left, shares, strict=True)]
    names = [_plain(f"{stack.name} (n={total:,})") for stack, total in zip(stacks, totals, strict=True)]
    axes.set_yticks(range(len(stacks)), names)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.grid(visible=False)
    axes.set_xlabel(_plain(f"share of {of}"))
    axes.tick_params(axis="y", length=0)
    _legend(axes, above=True)
    return _svg(figure, salt)


# --- parts


def _figure(height: float) -> tuple[Figure, Axes]:
    """An empty figure with one pair of axes in `INK` on transparent ground."""
    needs("matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, height))
    figure.patch.set_alpha(0)
    axes = figure.add_subplot()
    axes.patch.set_alpha(0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(INK)
    axes.tick_params(colors=INK, labelsize=9)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
    axes.grid(visible=True, axis="y", color=INK, alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def _draw_line(axes: Axes, line: Line, aside: Callable[[float], float]) -> None:
    """A line with its intervals and the rings of its marks, moved aside."""
    marks = sorted(line.marks, key=lambda mark: mark.tokens)
    colour = _COLOURS[line.place % len(_COLOURS)]
    turn = line.place + line.place // len(_COLOURS)  # a colour that comes again has another marker and dash
    axes.errorbar(
        [aside(mark.tokens) for mark in marks],
        [mark.value.mean or 0.0 for mark in marks],
        yerr=_reach([mark.value for mark in marks]),
        color=colour,
        elinewidth=1,
        capsize=2,
        marker=_MARKERS[turn % len(_MARKERS)],
        markersize=6,
        markerfacecolor="none" if line.reference else colour,
        linestyle="none" if line.reference else _DASHES[turn % len(_DASHES)],
        linewidth=1.6,
        label=_plain(line.name),
        zorder=3,
    )
    ringed = [mark for mark in marks if mark.on_front]
    axes.scatter(
        [aside(mark.tokens) for mark in ringed],
        [mark.value.mean or 0.0 for mark in ringed],
        s=110,
        facecolors="none",
        edgecolors=INK,
        linewidths=1.2,
        zorder=4,
        label="on the Pareto front" if ringed else None,
    )


def _aside(tokens: Sequence[float], steps: float) -> Callable[[float], float]:
    """Moves a number of tokens by steps of a hundredth of the axis."""
    low, high = min(tokens), max(tokens)
    if _is_wide(tokens):
        factor = (high / low) ** (steps * _STEP)
        return lambda number: number * factor
    shift = (high - low) * steps * _STEP
    return lambda number: number + shift


def _is_wide(tokens: Sequence[float]) -> bool:
    """Whether an axis of these is to be logarithmic."""
    return min(tokens) > 0 and max(tokens) / min(tokens) >= _LOG_FROM


def _reach(intervals: Sequence[Interval]) -> tuple[list[float], list[float]]:
    """How far each interval reaches below and above its mean; NaN, which isn't drawn, where there is none."""
    below = [math.nan if i.low is None or i.mean is None else max(0.0, i.mean - i.low) for i in intervals]
    above = [math.nan if i.high is None or i.mean is None else max(0.0, i.high - i.mean) for i in intervals]
    return below, above


def _token_axis(axes: Axes, tokens: Sequence[float]) -> None:
    """An axis that holds all tokens, with ticks at round numbers, written out."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    low, high = min(tokens), max(tokens)
    if _is_wide(tokens):
        reach = (high / low) ** 0.07
        axes.set_xscale("log")
        axes.set_xlim(low / reach, high * reach)
        axes.set_xticks([m * 10**e for e in range(8) for m in (1, 2, 5) if low / reach <= m * 10**e <= high * reach])
        axes.xaxis.set_minor_locator(NullLocator())
    elif high > low:
        axes.set_xlim(low - 0.07 * (high - low), high + 0.07 * (high - low))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:,.0f}"))


def _name_ends(axes: Axes, lines: Sequence[Line]) -> None:
    """The name of each line at the right of the plot, at its last mark or as near as there is room."""
    last = [(max(line.marks, key=lambda mark: mark.tokens), line) for line in lines if line.marks]
    ends = sorted((mark.value.mean or 0.0, line.place, line.name) for mark, line in last)
    low, high = axes.get_ylim()
    gap, height = (high - low) * 0.07, -math.inf
    for value, place, name in ends:
        height = max(value, height + gap)
        colour = _COLOURS[place % len(_COLOURS)]
        axes.text(
            1.01, height, _plain(name), transform=axes.get_yaxis_transform(), color=colour, fontsize=9, va="center"
        )
    for container in axes.containers:
        container.set_label("_named")


def _legend(axes: Axes, *, above: bool = False, below: bool = False) -> None:
    """A legend outside the data: right of the plot unless said otherwise; each name once, the front's last."""
    handles, labels = axes.get_legend_handles_labels()
    named = dict(sorted(dict(zip(labels, handles, strict=True)).items(), key=lambda item: item[0].startswith("on the")))
    if not named:
        return
    anchor = (0.0, 1.0) if above else (0.0, -0.16) if below else (1.01, 1.0)
    axes.legend(
        list(named.values()),
        list(named),
        frameon=False,
        labelcolor=INK,
        fontsize=9,
        ncols=4 if above else 1,
        loc="lower left" if above else "upper left",
        bbox_to_anchor=anchor,
    )


def _plain(text: str) -> str:
    """Text that is not taken for a formula."""
    return text.replace("$", r"\$")


def _wrapped(text: str) -> str:
    """A label in at most a few short lines, broken at blanks and hyphens."""
    lines = [""]
    for word in re.split(r"(?<=[-\s])", _plain(text)):
        if lines[-1] and len(lines[-1]) + len(word.rstrip()) > 12:
            lines.append("")
        lines[-1] += word
    return "\n".join(line.rstrip() for line in lines)


def _svg(figure: Figure, salt: str) -> str:
    """The figure as an <svg> element: text as text, no date, no ids but those that are referred to."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    out = io.StringIO()
    none = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context({"svg.hashsalt": salt, "svg.fonttype": "none", "font.family": "sans-serif"}):
        FigureCanvasSVG(figure).print_figure(
            out, format="svg", metadata=none, bbox_inches="tight", pad_inches=0.05, facecolor="none", edgecolor="none"
        )
    drawn = out.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    return re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", drawn).replace(INK.upper(), INK)
