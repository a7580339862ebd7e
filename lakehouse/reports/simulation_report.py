"""The report of a simulation of late data, as Markdown and as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.reports import formatting
from lakehouse.reports.charts import PlottedSeries, before_and_after, convergence
from lakehouse.reports.formatting import escape, table
from lakehouse.reports.templates import page
from lakehouse.text import format_duration

if TYPE_CHECKING:
    from lakehouse.examples.simulation_report import SimulatedDay, SimulatedPromotion, Simulation

#: The greatest number of a measure's days, and of log lines, on a page.
MOST = 200


def simulation_markdown(simulation: Simulation) -> str:
    """The simulation as Markdown, for a pull request, a wiki or a plain text mail."""
    made = f"Made {formatting.moment(simulation.made_at)}."
    lines = [f"# {escape(simulation.title)}", "", made, "", f"**{escape(summary(simulation))}**", ""]
    if simulation.parameters:
        lines += ["## Parameters", ""]
        lines += table(["parameter", "value"], [[name, str(value)] for name, value in simulation.parameters.items()])
    lines += _watermark(simulation)
    for measure in simulation.measures:
        days = simulation.of(measure)
        heads = ["day", "provisional", "preliminary", "final", "difference", "percent", "revisions", "on time", "late"]
        lines += [f"## {escape(measure)}", "", *table(heads, [_cells(day) for day in days[:MOST]], right=heads[1:])]
        lines += _left(len(days), "day")
    if simulation.promotions:
        heads = ["period", "version", "state", "reason", "published", "made from", "output"]
        log = _log(simulation)
        lines += ["## Promotions", "", *table(heads, [_line(promotion) for promotion in log[:MOST]]), *_left(len(log), "line")]
    return "\n".join(lines).rstrip() + "\n"


def simulation_html(simulation: Simulation) -> str:
    """The simulation as a single HTML file, which can be mailed, printed and archived."""
    log = _log(simulation)
    return page(
        "simulation",
        it=simulation,
        summary=summary(simulation),
        watermark=of_watermark(simulation),
        closes=simulation.closes[:MOST],
        after=simulation.after_watermark[:MOST],
        after_left=len(simulation.after_watermark[MOST:]),
        measures=[_drawn(simulation, measure) for measure in simulation.measures],
        promotions=log[:MOST],
        promotions_left=len(log[MOST:]),
    )


def summary(simulation: Simulation, arrow: str = "→") -> str:
    """The result in a sentence."""
    if not simulation.days:
        return "No day was simulated."
    on_time, late = simulation.arrived()
    rows = f"{late:,} of {formatting.counted(on_time + late, 'row')} arrived late"
    rows += f" ({100 * late / (on_time + late):.2f} %)" if late else ""
    restated = f"{len(simulation.restated()):,}" if simulation.restated() else "None"
    outcome = f"{restated} of {formatting.counted(len(simulation.periods), 'day')} ended with another number"
    sums = formatting.totals(simulation.totals(), arrow)
    return "; ".join(part for part in (outcome, sums, rows) if part) + "."


def of_watermark(simulation: Simulation) -> str:
    """The effect of the watermark in a sentence or two."""
    closes, after = simulation.closes, simulation.after_watermark
    waited = [close for close in closes if close.waited]
    if not closes:
        return "No watermark was followed."
    passed = sum(close.passed_at is not None for close in closes)
    text = f"The watermark passed {passed:,} of {formatting.counted(len(closes), 'day')}; "
    text += f"{formatting.counted(len(after), 'row')} arrived after it had passed their day"
    late = sum(not row.in_final for row in after)
    text += f", {late:,} of them after the close: booked as adjustments. " if late else ", none after the close. "
    if not waited:
        return text + "No close had to wait for it."
    longest = max(waited, key=lambda close: close.waited)
    how_long = formatting.counted(longest.waited, "day")
    return (
        text + f"{formatting.counted(len(waited), 'close')} waited for it, {longest.period} for {how_long}: "
        f"due on {longest.due}, closed on {longest.closed}."
    )


def _watermark(simulation: Simulation) -> list[str]:
    """The part of the Markdown about the watermark."""
    if not simulation.closes:
        return []
    heads = ["day", "due", "watermark passed it", "closed", "waited", "rows after the watermark", "after the close"]
    cells = [
        [
            close.period,
            f"{close.due}",
            formatting.moment(close.passed_at) if close.passed_at else "not yet",
            f"{close.closed}" if close.closed else "not yet",
            formatting.counted(close.waited, "day") if close.waited else "",
            f"{len(close.after):,}",
            f"{sum(not row.in_final for row in close.after):,}",
        ]
        for close in simulation.closes
    ]
    lines = ["## The watermark", "", escape(of_watermark(simulation)), "", *table(heads, cells[:MOST], right=heads[5:])]
    lines += _left(len(cells), "day")
    if after := simulation.after_watermark:
        heads = ["event", "happened", "arrived", "late by", "counts"]
        rows = [
            [
                row.event,
                formatting.moment(row.happened_at),
                formatting.moment(row.arrived_at),
                format_duration(row.lateness),
                "in the final number" if row.in_final else "as an adjustment",
            ]
            for row in after[:MOST]
        ]
        lines += ["### Rows after the watermark", "", *table(heads, rows), *_left(len(after), "row")]
    return lines


def _drawn(simulation: Simulation, measure: str) -> dict[str, Any]:
    """The part of the page about a measure."""
    days = simulation.of(measure)
    distances = [of_day for day in days if (of_day := day.distances())]
    changed = sum(day.sides.changed for day in days)
    furthest = max((abs(of_day[0]) for of_day in distances), default=0)
    sentence = f"they differ on {formatting.counted(changed, 'day')}"
    return {
        "name": measure,
        "chart": before_and_after([PlottedSeries("", tuple(day.period for day in days), tuple(day.sides for day in days))]),
        "alternative": f"Line chart of {measure} by day, provisional and final; {sentence}.",
        "convergence": convergence(distances) if distances else None,
        "converging": f"Line chart of the distance from the final number by revision; first up to {furthest:.2f} %.",
        "days": days[:MOST],
        "left": len(days[MOST:]),
    }


def _cells(day: SimulatedDay) -> list[str]:
    counts = [f"{count:,}" for count in (len(day.revisions), day.on_time, day.late)]
    provisional, final = formatting.both(day.sides)
    return [
        formatting.plain(day.period),
        provisional,
        formatting.number(day.preliminary),
        final,
        formatting.difference(day.sides),
        formatting.percent(day.sides),
        *counts,
    ]


def _log(simulation: Simulation) -> list[SimulatedPromotion]:
    return sorted(simulation.promotions, key=lambda promotion: (promotion.published_at, promotion.period))


def _line(promotion: SimulatedPromotion) -> list[str]:
    published, reason = formatting.moment(promotion.published_at), formatting.reason(promotion.reason)
    return [promotion.period, promotion.version, promotion.state, reason, published, promotion.inputs, promotion.output]


def _left(count: int, noun: str) -> list[str]:
    left = count - MOST
    return [f"The last {formatting.counted(left, noun)} not shown.", ""] if left > 0 else []
