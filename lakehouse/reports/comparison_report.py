"""The comparison of two versions of a metric as a document: for the terminal, as Markdown, HTML or JSON.

Here are the layout and the charts of the reports: numbers before and after, and how revisions approached the final number. The
wording is in ``formatting``, the markup in the templates.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from lakehouse.gold.numbers.comparison import Sides, added
from lakehouse.reports import formatting
from lakehouse.reports.formatting import escape, table
from lakehouse.reports.templates import COLOURS, DOTTED, HEIGHT, Chart, chart, cut_svg, frame, label, page, short, values
from lakehouse.text import json_value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from lakehouse.gold.numbers.comparison import Comparison, MeasureDelta

#: The greatest number of a measure's rows on a page, and in a terminal; JSON has all rows.
MOST = 200
MOST_IN_TERMINAL = 50
#: The greatest number of drawings of a measure whose grain does not add up.
_MOST_DRAWN = 6
_NUMERIC = ("difference", "percent", "rows", "limit")


def as_terminal(comparison: Comparison) -> RenderableType:
    """The comparison for the terminal; no name is interpreted as markup."""
    parts: list[RenderableType] = [Text(formatting.summary(comparison), style="bold")]
    if comparison.changes:
        parts.append(Text(f"From {formatting.plain(comparison.from_version)} to {formatting.plain(comparison.to_version)}."))
    parts += [Text(sentence, style="red") for sentence in formatting.absent(comparison)]
    for threshold in comparison.thresholds:
        held, words = formatting.verdict(comparison, threshold)
        limit = f"{formatting.plain(threshold.measure)} may change by {formatting.number(threshold.percent)} %: {words}"
        parts.append(Text(limit, style="green" if held else "red"))
    for measure in comparison.measures:
        heads, rows, left = _rows(comparison, measure, MOST_IN_TERMINAL)
        if rows:
            sides = len(comparison.grain) + 1  # the names of versions are too long for heads, and stand above
            heads[sides : sides + 2] = ["from", "to"]
            parts += [Text(f"\n{formatting.plain(measure)}", style="bold"), _table(heads, rows, names=len(comparison.grain))]
        if left:
            parts.append(Text(f"{formatting.counted(left, 'smaller change')} not shown."))
    return Group(*parts)


def _table(heads: list[str], rows: list[list[str]], names: int) -> Table:
    """A table that fits into 80 characters: numbers and periods are not folded; other formats also show revisions and rows."""
    shown = Table(box=box.HORIZONTALS, collapse_padding=True, pad_edge=False)
    for at, head in enumerate(heads[:-1]):
        numeric = names < at <= names + 4
        if head != "revisions":
            shown.add_column(Text(head), justify="right" if numeric else "left", overflow="fold", no_wrap=numeric or at == 0)
    at_revisions = heads.index("revisions")
    for row in rows:
        shown.add_row(*(Text(cell) for at, cell in enumerate(row[:-1]) if at != at_revisions))
    return shown


def as_markdown(comparison: Comparison) -> str:
    """The comparison as Markdown, for a pull request, a wiki or a plain text mail."""
    sides = f"From {escape(comparison.from_version)} to {escape(comparison.to_version)}"
    about = f"{sides}, {escape(comparison.first)} to {escape(comparison.last)}. Made {formatting.moment(comparison.made_at)}."
    lines = [f"# {escape(comparison.metric)}", "", about, "", f"**{escape(formatting.summary(comparison, arrow='→'))}**", ""]
    for sentence in formatting.absent(comparison):
        lines += [escape(sentence), ""]
    lines += [*_sums(comparison), *_thresholds(comparison)]
    for measure in comparison.measures:
        lines += [f"## {escape(measure)}", "", *_changes(comparison, measure, MOST)]
    return "\n".join(lines).rstrip() + "\n"


def as_html(comparison: Comparison) -> str:
    """The comparison as a single HTML file, which can be mailed, printed and archived."""
    verdicts = [(threshold, *formatting.verdict(comparison, threshold)) for threshold in comparison.thresholds]
    return page(
        "comparison",
        it=comparison,
        summary=formatting.summary(comparison, arrow="→"),
        verdicts=verdicts,
        kept=all(held for _, held, _ in verdicts),
        beyond=formatting.counted(len(comparison.beyond()), "change"),
        absent=formatting.absent(comparison),
        unit=formatting.unit(comparison.periods),
        measures=[_drawn(comparison, measure) for measure in comparison.measures],
    )


def as_json(comparison: Comparison) -> str:
    """The comparison as JSON, complete and in the given order; decimals are text, so that none is rounded."""
    missing = comparison.missing()
    document = {
        "metric": comparison.metric,
        "from_version": comparison.from_version,
        "to_version": comparison.to_version,
        "first": comparison.first,
        "last": comparison.last,
        "made_at": comparison.made_at.isoformat(),
        "summary": formatting.summary(comparison),
        "periods": len(comparison.periods),
        "changed_periods": sorted({change.period for change in comparison.changed()}),
        "missing": {"before": missing.before, "after": missing.after},
        "totals": {measure: sides.as_json() for measure, sides in comparison.totals().items()},
        "thresholds": [
            {
                "measure": threshold.measure,
                "percent": json_value(threshold.percent),
                "broken_by": sum(threshold.broken_by(change) for change in comparison.changes),
            }
            for threshold in comparison.thresholds
        ],
        "changes": [_change(comparison, change) for change in comparison.changes],
    }
    return json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False)


@dataclass(frozen=True)
class MovedLatest:
    """Who has moved ``latest`` of a metric from which version to which, when and why."""

    by: str
    reason: str
    from_version: str
    to_version: str
    at: datetime


def release_notes(
    comparison: Comparison,
    move: MovedLatest,
    *,
    deprecated_on: date | None,
    description_changes: Sequence[str],
    back: str | None = None,
) -> str:
    """Release notes for the readers of a metric whose ``latest`` has been moved to another version, as Markdown.

    :param back: the command that undoes it; default: the rollback of a promotion.
    """
    metric, old, new = escape(comparison.metric), escape(move.from_version), escape(move.to_version)
    moved = f"On {formatting.moment(move.at)} {escape(move.by)} moved `latest` of {metric} from {old} to {new}."
    lines = [f"# {metric}: {old} → {new}", "", moved, "", f"Reason: {escape(move.reason)}", "", "## What changed", ""]
    lines += [*(f"- {escape(change)}" for change in description_changes), *([""] if description_changes else [])]
    lines += [escape(formatting.summary(comparison, arrow="→")), "", *_sums(comparison)]
    changed = sorted({change.period for change in comparison.changed()})
    if changed:
        lines += [f"Restated: {escape(formatting.spans(changed))}.", ""]
    for sentence in formatting.absent(comparison):
        lines += [escape(sentence), ""]
    lines += _thresholds(comparison)
    for measure in comparison.measures:
        if comparison.largest(measure, 1):
            lines += [f"## Largest differences in {escape(measure)}", "", *_changes(comparison, measure, 5)]
    lines += [f"## What becomes of {old}", ""]
    if deprecated_on is None:
        lines += [f"{old} stays readable; no date is set for its end.", ""]
    else:
        lines += [f"{old} is deprecated from {deprecated_on}: consumers that read it by name should move to {new} by then.", ""]
    back = back or f"lakehouse gold rollback {shlex.quote(formatting.plain(comparison.metric))} --by YOU --reason WHY"
    lines += ["## How to go back", "", f"This makes {old} the latest again, and keeps {new}:", "", f"    {back}"]
    return "\n".join(lines) + "\n"


def _rows(comparison: Comparison, measure: str, most: int) -> tuple[list[str], list[list[str]], int]:
    """The changes of a measure as text: the headers, the rows, and how many rows were left out."""
    sides = comparison.from_version, comparison.to_version
    names = [
        formatting.unit(comparison.periods),
        *comparison.grain,
        *sides,
        "difference",
        "percent",
        "revisions",
        "reason",
        "rows",
    ]
    heads = [formatting.plain(name) for name in names]
    largest = comparison.largest(measure)
    return heads, [_cells(change, comparison.grain) for change in largest[:most]], len(largest[most:])


def _cells(change: MeasureDelta, grain: Sequence[str]) -> list[str]:
    before, after = formatting.both(change.sides)
    counted = "" if change.rows is None else formatting.number(change.rows)
    named = [formatting.cell(change, column) for column in grain]
    why = [formatting.versions(change, "→"), formatting.reason(change.reason)]
    return [
        formatting.plain(change.period),
        *named,
        before,
        after,
        formatting.difference(change.sides),
        formatting.percent(change.sides),
        *why,
        counted,
    ]


def _changes(comparison: Comparison, measure: str, most: int) -> list[str]:
    heads, rows, left = _rows(comparison, measure, most)
    if not rows:
        return ["No number of this measure differs.", ""]
    shown = table(heads, rows, right=(heads[1 + len(comparison.grain)], heads[2 + len(comparison.grain)], *_NUMERIC))
    return [*shown, *([f"{formatting.counted(left, 'smaller change')} not shown.", ""] if left else [])]


def _sums(comparison: Comparison) -> list[str]:
    heads = ["total", comparison.from_version, comparison.to_version, "difference", "percent"]
    rows = [
        [measure, *formatting.both(sides), formatting.difference(sides), formatting.percent(sides)]
        for measure, sides in comparison.totals().items()
    ]
    return table(heads, rows, right=heads[1:]) if rows else []


def _thresholds(comparison: Comparison) -> list[str]:
    rows = [
        [threshold.measure, f"{formatting.number(threshold.percent)} %", formatting.verdict(comparison, threshold)[1]]
        for threshold in comparison.thresholds
    ]
    return table(["threshold of", "limit", "verdict"], rows, right=_NUMERIC) if rows else []


def _drawn(comparison: Comparison, measure: str) -> dict[str, Any]:
    """The part of the page about a measure."""
    largest = comparison.largest(measure)
    series, caption = _series(comparison, measure)
    unit = formatting.unit(comparison.periods)
    sentence = f"No {unit} differs."
    if largest:
        first = f"{formatting.where(largest[0])}, {' → '.join(formatting.both(largest[0].sides))}"
        sentence = (
            f"{formatting.counted(len(largest), 'number')} of {measure} changed; the largest difference is that of {first}."
        )
    return {
        "name": measure,
        "chart": before_and_after(series),
        "caption": caption,
        "alternative": f"Line chart of {measure} by {unit}, before and after. {sentence}",
        "changes": largest[:MOST],
        "count": formatting.counted(len(largest), "changed number"),
        "left": len(largest[MOST:]),
    }


def _series(comparison: Comparison, measure: str) -> tuple[list[PlottedSeries], str]:
    """The series to draw, and a caption: the sum over the grain if it adds up, otherwise the grains that changed most."""
    changes = [change for change in comparison.changes if change.measure == measure]
    unit = formatting.unit(comparison.periods)
    grains = list(dict.fromkeys(change.grain for change in (*comparison.largest(measure), *changes)))
    if measure in comparison.additive or len(grains) == 1:
        over = f", over all of {', '.join(comparison.grain)}" if len(grains) > 1 else ""
        return [_plotted("", changes, comparison.periods)], f"By {unit}{over}; below, the difference"
    names = {grain: ", ".join(f"{column} {value}" for column, value in grain) for grain in grains[:_MOST_DRAWN]}
    of_many = f", the {_MOST_DRAWN} of {len(grains):,} that changed most" if len(grains) > _MOST_DRAWN else ""
    drawn = [
        _plotted(name, [change for change in changes if change.grain == grain], comparison.periods)
        for grain, name in names.items()
    ]
    return drawn, f"By {unit} and {', '.join(comparison.grain)}{of_many}; below each, the difference"


def _plotted(name: str, changes: Sequence[MeasureDelta], periods: Sequence[str]) -> PlottedSeries:
    of_period: dict[str, list[MeasureDelta]] = {period: [] for period in periods}
    for change in changes:
        of_period[change.period].append(change)
    sums = [
        Sides(added(change.before for change in group), added(change.after for change in group)) for group in of_period.values()
    ]
    return PlottedSeries(name, tuple(of_period), tuple(sums))


def _change(comparison: Comparison, change: MeasureDelta) -> dict[str, Any]:
    return {
        "period": change.period,
        "grain": dict(change.grain),
        "measure": change.measure,
        **change.sides.as_json(),
        "changed": change.changed,
        "beyond": any(threshold.broken_by(change) for threshold in comparison.thresholds),
        "before_version": change.before_version,
        "after_version": change.after_version,
        "before_state": change.before_state,
        "after_state": change.after_state,
        "reason": change.reason,
        "rows": change.rows,
    }


@dataclass(frozen=True)
class PlottedSeries:
    """Both numbers of every period. ``name`` is drawn if a chart has several series."""

    name: str
    periods: tuple[str, ...]
    sides: tuple[Sides, ...]


def before_and_after(series: Sequence[PlottedSeries]) -> Chart:
    """For each series the lines before and after, with the area between them filled, and below them the differences as bars."""

    def draw(figure: Figure, labels: int) -> None:
        heights = [part for _ in series for part in (3, 1.25)]
        axes = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
        for plotted, upper, lower in zip(series, axes[::2], axes[1::2]):
            _lines(upper, plotted)
            _bars(lower, plotted)
            if len(series) > 1:
                upper.set_title(cut_svg(plotted.name, 60), loc="left", fontsize=9, color=COLOURS["ink"])
        label(axes[-1], series[0].periods, labels)

    return chart(draw, height=HEIGHT * (1 + 0.75 * (len(series) - 1)))


def convergence(days: Sequence[Sequence[float]]) -> Chart:
    """The distance of each day's first, second, ... revision from the final number in percent, and the mean over all days."""

    def draw(figure: Figure, labels: int) -> None:
        axes = figure.subplots()
        frame(axes)
        most = max(len(day) for day in days)
        for day in days:
            axes.plot(range(1, len(day) + 1), day, color=COLOURS["before"], linewidth=0.8, alpha=0.55, marker=".", markersize=3)
        # A day with fewer revisions keeps its last number.
        mean = [sum(day[min(at, len(day) - 1)] for day in days) / len(days) for at in range(most)]
        axes.plot(range(1, most + 1), mean, color=COLOURS["after"], linewidth=2, marker="o", markersize=4)
        axes.axhline(0, color=COLOURS["muted"], linewidth=0.8)
        shown = range(1, most + 1, -(-most // labels))
        axes.set_xticks(shown, [f"r{at}" for at in shown])
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:+g} %" if value else "0 %")

    return chart(draw, height=HEIGHT)


def _lines(axes: Axes, series: PlottedSeries) -> None:
    at = range(len(series.sides))
    before, after = values([sides.before for sides in series.sides]), values([sides.after for sides in series.sides])
    marker = "o" if len(at) <= DOTTED else ""
    axes.fill_between(at, before, after, color=COLOURS["after"], alpha=0.16, linewidth=0)
    axes.plot(at, before, color=COLOURS["before"], linewidth=1.4, linestyle=(0, (4, 2)), marker=marker, markersize=2.5)
    axes.plot(at, after, color=COLOURS["after"], linewidth=1.8, marker=marker, markersize=3)
    axes.yaxis.set_major_formatter(short)
    frame(axes)


def _bars(axes: Axes, series: PlottedSeries) -> None:
    apart = values([sides.difference for sides in series.sides])
    colours = [COLOURS["down" if difference < 0 else "up"] for difference in apart]
    axes.bar(range(len(apart)), [0 if isnan(difference) else difference for difference in apart], color=colours, width=0.7)
    axes.axhline(0, color=COLOURS["muted"], linewidth=0.8)
    axes.locator_params(axis="y", nbins=3)
    axes.yaxis.set_major_formatter(lambda value, at: ("+" if value > 0 else "") + short(value, at))
    frame(axes)
