"""The report of a backtest, as Markdown, as an HTML page with charts, and as JSON.

The chart of a backtest: a measure of both versions, month by month with intervals.
"""

from __future__ import annotations

import json
from math import isnan
from typing import TYPE_CHECKING, Any

from lakehouse.models.comparison import LEVEL
from lakehouse.models.result import READINGS
from lakehouse.reports import formatting
from lakehouse.reports.formatting import escape, table
from lakehouse.reports.templates import COLOURS, HEIGHT, Chart, chart, frame, label, page, short, values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lakehouse.models.comparison import ComparedMeasure, ComparedPart, IntervalEstimate
    from lakehouse.models.result import BacktestResult, ReadingResult


#: The horizontal offset of the two versions from the middle of their month, in months.
_APART = 0.06
#: The margin before the first and after the last month, in months.
_MARGIN = 0.6


def chart_by_month(parts: Sequence[ComparedPart], measure: str) -> Chart:
    """The measure of champion and challenger with their intervals; a month without a value stays empty."""
    compared = [part.measure(measure) for part in parts]

    def draw(figure: Figure, labels: int) -> None:
        axes = figure.subplots()
        _points(axes, [sides.champion for sides in compared], -_APART, "before", "s")
        _points(axes, [sides.challenger for sides in compared], _APART, "after", "o")
        axes.yaxis.set_major_formatter(short)
        frame(axes)
        label(axes, [part.name for part in parts], labels)
        axes.set_xlim(-_MARGIN, len(parts) - 1 + _MARGIN)  # two months fill the chart as well as twelve

    return chart(draw, height=HEIGHT)


def _points(axes: Axes, estimates: Sequence[IntervalEstimate], apart: float, colour: str, marker: str) -> None:
    at = [place + apart for place in range(len(estimates))]
    middle, low, high = (values([getattr(entry, side) for entry in estimates]) for side in ("value", "low", "high"))
    # An interval from resamples need not contain the value measured on all rows.
    down = [max(0.0, point - least) for point, least in zip(middle, low)]
    up = [max(0.0, most - point) for point, most in zip(middle, high)]
    axes.errorbar(at, middle, yerr=[down, up], fmt=marker, color=COLOURS[colour], ecolor=COLOURS[colour], capsize=3, markersize=5)


_HEADS = ("month", "rows", "labels 1", "measure")


def verdict_sentence(result: BacktestResult) -> str:
    """The outcome in a sentence."""
    verdicts = result.readings[result.judged].verdicts
    if not verdicts:
        return f"{result.model} has no acceptance rules; the numbers are for people to judge."
    missed = len(result.failed)
    if not missed:
        return f"{result.version} meets the acceptance rules against {result.against}."
    return f"{result.version} does not meet {formatting.counted(missed, 'acceptance rule')} against {result.against}."


def as_json(result: BacktestResult, about: dict[str, Any]) -> str:
    """The whole result for programs.

    :param about: further recorded facts about the backtest.
    """
    values = {"model": result.model, "version": result.version, "against": result.against, **about, **result.stored()}
    return json.dumps(values, indent=2, default=str, allow_nan=False) + "\n"


def as_markdown(result: BacktestResult, title: str, made: str) -> str:
    """The report as Markdown, for a pull request, a wiki or a plain text mail.

    :param made: a sentence with the time, the author and the rows of the backtest.
    """
    lines = [f"# {escape(title)}", "", escape(made), "", f"**{escape(verdict_sentence(result))}**", ""]
    lines += [line for remark in result.remarks for line in (f"Note: {escape(remark)}.", "")]
    for name, reading in result.readings.items():
        lines += [f"## Rows with {READINGS[name]}", ""]
        if name == result.judged:
            lines += ["The acceptance rules are judged on these rows.", ""]
        lines += [f"- {escape(verdict.text)}" for verdict in reading.verdicts] + ([""] if reading.verdicts else [])
        heads = [*_HEADS, result.against, result.version, "difference"]
        lines += table(heads, [row for part in _parts(reading) for row in _rows(part)], right=(heads[1], heads[2], *heads[4:]))
    lines += [escape(_about_intervals(result))]
    return "\n".join(lines).rstrip() + "\n"


def as_html(result: BacktestResult, title: str, made: str) -> str:
    """The report as a page in a single file, which loads nothing from elsewhere."""
    judged = result.readings[result.judged]
    drawn = [
        {
            "name": measure.name.replace("_", " "),
            "chart": chart_by_month(judged.comparison.months, measure.name),
            "alternative": f"{measure.name} by month: {_in_words(result, judged, measure.name)}.",
        }
        for measure in judged.comparison.total.measures
    ]
    readings = [
        {"words": READINGS[name], "is_judged": name == result.judged, "verdicts": reading.verdicts, "parts": _shown(reading)}
        for name, reading in result.readings.items()
    ]
    return page(
        "backtest",
        it=result,
        title=title,
        made=made,
        sentence=verdict_sentence(result),
        charts=drawn,
        readings=readings,
        about_intervals=_about_intervals(result),
    )


def with_interval(estimate: IntervalEstimate) -> str:
    """A number with its interval: ``0.8123 (0.7910 to 0.8345)``."""
    return " ".join(filter(None, _texts(estimate)))


def _texts(estimate: IntervalEstimate, sign: str = "") -> tuple[str, str]:
    """A number, and its interval in parentheses; the interval is empty if there is none."""
    if isnan(estimate.value):
        return "none", ""
    bounds = "" if isnan(estimate.low) else f"({estimate.low:{sign}.4f} to {estimate.high:{sign}.4f})"
    return f"{estimate.value:{sign}.4f}", bounds


def _parts(reading: ReadingResult) -> list[ComparedPart]:
    return [*reading.comparison.months, reading.comparison.total]


def _rows(part: ComparedPart) -> list[list[str]]:
    counts = [part.name, f"{part.rows:,}", "" if part.positives is None else f"{part.positives:,}"]
    return [
        [
            *(*counts, measure.name, with_interval(measure.champion), with_interval(measure.challenger)),
            " ".join(filter(None, _texts(measure.difference, "+"))),
        ]
        for measure in part.measures
    ]


def _shown(reading: ReadingResult) -> list[dict[str, Any]]:
    """The rows of the page's table, by part; ``better`` is True or False if the interval of the difference decides it."""
    return [
        {
            "part": part,
            "measures": [
                {
                    "name": measure.name.replace("_", " "),
                    "sides": [_texts(measure.champion), _texts(measure.challenger)],
                    "difference": _texts(measure.difference, "+"),
                    "better": _is_better(measure),
                }
                for measure in part.measures
            ],
        }
        for part in _parts(reading)
    ]


def _is_better(measure: ComparedMeasure) -> bool | None:
    apart = measure.difference
    if isnan(apart.low) or apart.low <= 0 <= apart.high:
        return None
    return measure.gain > 0


def _in_words(result: BacktestResult, reading: ReadingResult, name: str) -> str:
    of_months = [(part.name, part.measure(name)) for part in reading.comparison.months]
    return "; ".join(
        f"{month} {result.against} {with_interval(measure.champion)}, {result.version} {with_interval(measure.challenger)}"
        for month, measure in of_months
    )


def _about_intervals(result: BacktestResult) -> str:
    return (
        f"In brackets are {LEVEL:.0%} intervals from {result.resamples:,} resamples of the rows (seed {result.seed}); "
        "those of a difference are from the same resamples of both versions."
    )
