"""``lakehouse demo simulate``: publish seeded events with late arrivals day by day, and compare provisional with final numbers.

This module has the steps, the folder, the printed text, and the report as Markdown and as a page. The events are generated in
``examples.late_events``, the results are read in ``examples.simulation_results``.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from lakehouse.cli.console import errors, out
from lakehouse.orchestration.commands import with_progress
from lakehouse.reports import formatting
from lakehouse.reports.comparison_report import PlottedSeries, before_and_after, convergence
from lakehouse.reports.formatting import escape, table
from lakehouse.reports.templates import page
from lakehouse.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.series import Series
    from lakehouse.examples.late_events import Options
    from lakehouse.examples.simulation_results import SimulatedDay, SimulatedPromotion, Simulation
    from lakehouse.lake import Lake


_MARK = "simulation.json"
_MARK_IN_WRITING = f".{_MARK}.new"


def simulate(
    days: Annotated[int, typer.Option(help="Event days.", min=1, max=3660)] = 14,
    events: Annotated[int, typer.Option(help="Events per day.", min=1)] = 200,
    late_share: Annotated[float, typer.Option(help="The share of all events that arrive late.", min=0, max=1)] = 0.1,
    late_hours: Annotated[str, typer.Option(help="How late these are, in hours: least and most.")] = "24-72",
    seed: Annotated[int, typer.Option(help="Another seed generates other events.")] = 7,
    root: Annotated[Path | None, typer.Option(help="Folder of the simulated lake; default: simulation, in the root.")] = None,
    output: Annotated[Path | None, typer.Option(help="Folder of the reports; default: reports, in the simulated lake.")] = None,
) -> None:
    """Publish a stream of partly late events day by day until all is final; compare provisional with final numbers.

    The simulation uses its own root and changes no other table. Repeating it with the same options changes nothing.
    """
    from lakehouse.examples import late_events, simulation_results  # noqa: PLC0415 (Spark and Dagster load in seconds)
    from lakehouse.spark.jars import require_java  # noqa: PLC0415

    options = late_events.Options(days, events, late_share, _hours(late_hours), seed)
    lake = _lake(root)
    folder = Path(lake.root)
    if not (folder / _MARK).is_file():
        require_java(lake)  # before anything is written; a completed simulation needs no Spark
    made_at = _claim(folder, options, lake.now())
    made = late_events.events(options)
    texts = {folder / "contracts" / name: text for name, text in late_events.CONTRACTS.items()}
    texts |= {Path(lake.landing_of(late_events.SOURCE)) / name: text for name, text in late_events.files(made).items()}
    new = _write(texts)
    before = simulation_results.table_versions(lake)
    one = _publish(lake, late_events.clock_days(made))

    found = _found(lake, one, options, made_at)
    reports = (output or folder / "reports").absolute()
    new += _write({reports / name: text for name, text in _reports(found).items()})
    _say(found, options, lake, reports)
    if not new and simulation_results.table_versions(lake) == before:
        out.print("Nothing changed: every event, number and report exists already.")


def _hours(text: str) -> tuple[int, int]:
    least, _, most = text.partition("-")
    if not (least.isdecimal() and most.isdecimal() and int(least) <= int(most)):
        msg = f"--late-hours is the least and the most in whole hours, as in 24-72, and not {text!r}"
        raise typer.BadParameter(msg)
    return int(least), int(most)


def _lake(root: Path | None) -> Lake:
    """The user's settings, with the folders and contracts of the simulation."""
    from lakehouse.examples.late_events import SOURCE  # noqa: PLC0415
    from lakehouse.lake import Lake  # noqa: PLC0415

    own = Lake.open()
    if root is None and "://" in own.root:
        _stop(f"A simulation writes files: name a local folder with --root; LAKEHOUSE_ROOT is {own.root}.")
    folder = (root or Path(own.root, "simulation")).expanduser().absolute()
    return Lake.open(
        root=f"{folder}", landing=f"{folder}/landing/{SOURCE}", contracts=folder / "contracts", bundled_contracts=False
    )


def _claim(folder: Path, options: Options, now: datetime) -> datetime:
    """Reserve the folder for this simulation.

    :returns: the start of the simulation, so that it writes the same report later.
    """
    wanted = json.loads(json.dumps(asdict(options)))
    mark = folder / _MARK
    if mark.is_file():
        said = json.loads(mark.read_text())
        if said["options"] != wanted:
            there = ", ".join(f"{name.replace('_', ' ')} {_shown(value)}" for name, value in said["options"].items())
            _stop(f"{folder} contains a simulation with other options ({there}). Pass another --root for this one.")
        return datetime.fromisoformat(said["begun_at"])
    if folder.exists() and any(entry.name != _MARK_IN_WRITING for entry in folder.iterdir()):
        _stop(f"{folder} contains something other than a simulation. Pass another --root: a folder that is new or empty.")
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / _MARK_IN_WRITING
    written.write_text(json.dumps({"options": wanted, "begun_at": now.isoformat()}) + "\n")
    written.replace(mark)
    return now


def _write(texts: Mapping[Path, str]) -> int:
    """Write new and changed files only: an unchanged file keeps its modification time and does not look new.

    :returns: the number of written files.
    """
    new = {path: text.encode() for path, text in texts.items()}
    new = {path: text for path, text in new.items() if not path.is_file() or path.read_bytes() != text}
    for path, text in new.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    return len(new)


def _publish(lake: Lake, days: list[date]) -> Series:
    """Replay the days.

    :returns: the daily series.
    """
    import dagster as dg  # noqa: PLC0415 (Dagster and Spark load in seconds)

    from lakehouse.examples import simulation_results  # noqa: PLC0415
    from lakehouse.examples.late_events import METRIC, SOURCE  # noqa: PLC0415
    from lakehouse.gold.numbers import served_version  # noqa: PLC0415
    from lakehouse.orchestration.execution.replay import Replay  # noqa: PLC0415

    catalog = _catalog(lake)
    daily = served_version.daily(lake, catalog, catalog.metrics[METRIC])
    reached = simulation_results.lived_through(lake, daily) or days[0]
    days = [day for day in days if day >= reached]
    errors.print(f"Replaying {days[0]} to {days[-1]} in {lake.root}.", style="dim", soft_wrap=True)
    logging.getLogger("dagster").setLevel(logging.ERROR)
    with dg.DagsterInstance.ephemeral() as instance:  # these runs do not belong in the user's run history
        with_progress(Replay(lake, catalog, SOURCE, instance), days)
    return daily


def _catalog(lake: Lake) -> Catalog:
    from lakehouse.contracts import load_catalog  # noqa: PLC0415

    return load_catalog(lake.settings.contracts, bundled=False)


def _found(lake: Lake, daily: Series, options: Options, made_at: datetime) -> Simulation:
    from lakehouse.examples import late_events, simulation_results  # noqa: PLC0415

    contract = _catalog(lake).sources[late_events.SOURCE]
    days = f"{options.days:,} {'day' if options.days == 1 else 'days'}"
    title = f"{days} of events, {100 * options.late_share:g} % of them late"
    return simulation_results.simulation(lake, daily, contract, title, options.summary(), made_at)


def _reports(simulation: Simulation) -> dict[str, str]:
    """The reports, as file name to text."""
    # MERGED

    log = "".join(json.dumps(asdict(line), default=str) + "\n" for line in simulation.promotions)
    return {
        "simulation.md": simulation_markdown(simulation),
        "simulation.html": simulation_html(simulation),
        "promotions.jsonl": log,
    }


def _say(simulation: Simulation, options: Options, lake: Lake, reports: Path) -> None:
    from lakehouse.examples.late_events import METRIC  # noqa: PLC0415
    # MERGED

    parameters = ", ".join(f"{name} {value}" for name, value in options.summary().items())
    out.print(f"Simulated: {parameters}.", soft_wrap=True)
    out.print(summary(simulation, "->"), soft_wrap=True)
    out.print(of_watermark(simulation), soft_wrap=True)
    out.print(f"{len(simulation.promotions):,} promotions, each with its inputs; the reports:", soft_wrap=True)
    for name in ("simulation.html", "simulation.md", "promotions.jsonl"):
        out.print(f"  {reports / name}", soft_wrap=True)
    out.print("Query this lake like any other:", style="dim")
    out.print(f"  export LAKEHOUSE_ROOT={lake.root} LAKEHOUSE_CONTRACTS={lake.settings.contracts}", style="dim", soft_wrap=True)
    out.print(f"  lakehouse gold history {METRIC} {simulation.periods[0]}", style="dim", soft_wrap=True)


def _shown(value: object) -> str:
    return "-".join(map(str, value)) if isinstance(value, list) else f"{value}"


def _stop(text: str) -> NoReturn:
    errors.print(text, style="red", highlight=False, soft_wrap=True)
    raise typer.Exit(2)


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
