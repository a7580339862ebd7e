"""``lakehouse lateness``: measure the lateness of rows, propose a cutoff, and apply it to the contract.

The printed parts are shared by the commands: tiers, hours of the day, durations and times.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta, timezone
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import catalog_with, counted, errors, out

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakehouse.contracts import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.lateness.measurement import LatenessMeasurement
    from lakehouse.lateness.rules import Proposal


#: The clock of the hours by which lateness is shown: event or arrival.
Clock = Literal["event", "arrival"]


def duration(seconds: float | None) -> str:
    """A number of seconds as a duration; ``none`` for None."""
    from lakehouse.text import format_duration  # noqa: PLC0415 (`--help` need not wait for it)

    if seconds is None:
        return "none"
    return f"{'-' if seconds < 0 else ''}{format_duration(timedelta(seconds=abs(seconds)))}"


def moment(time: datetime) -> str:
    """A time as text (UTC)."""
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


def tiers_as_json(contract: SourceContract, measured: LatenessMeasurement) -> list[dict[str, Any]]:
    """The rows beyond each tier."""
    from lakehouse.lateness import measurement  # noqa: PLC0415 (Arrow loads in a second)

    return [
        {
            "within": int(late.tier.within.total_seconds()),
            "serves": late.tier.serves,
            "tolerated": late.tier.tolerated,
            "beyond": late.beyond,
            "share": late.share,
            "is_exceeded": late.is_exceeded,
        }
        for late in measurement.beyond_tiers(contract, measured)
    ]


def print_tiers(contract: SourceContract, measured: LatenessMeasurement) -> None:
    """Print the share of rows beyond each tier."""
    from lakehouse.lateness import measurement  # noqa: PLC0415 (Arrow loads in a second)

    for late in measurement.beyond_tiers(contract, measured):
        tolerated = "" if late.tier.tolerated is None else f"; the contract tolerates {late.tier.tolerated:.2%}"
        tells = f"{counted(late.beyond)} later, {late.share:.2%}{tolerated}"
        text = f"  tier {duration(late.tier.within.total_seconds())} ({late.tier.serves}): {tells}"
        out.print(text, style="yellow" if late.is_exceeded else None, soft_wrap=True)


def print_left_out(measured: LatenessMeasurement, indent: str) -> None:
    """Print the numbers of rows that are in no measure: those ahead of their arrival, and those that are no sign of lateness."""
    if measured.skewed:
        out.print(f"{indent}{counted(measured.skewed)} with an event ahead of its arrival left out", soft_wrap=True)
    if measured.historical:
        history = f"{counted(measured.historical)} of a first load, a backfill or a correction by hand"
        out.print(f"{indent}left out: {history}", soft_wrap=True)


def hours_as_json(hours: Mapping[int, Sequence[int]]) -> list[dict[str, Any]]:
    """The lateness of the rows of each hour."""
    from lakehouse.lateness.rules import percentiles  # noqa: PLC0415 (Arrow loads in a second)

    return [
        {"hour": hour, "rows": len(seconds), **percentiles(seconds), "max": int(seconds[-1])} for hour, seconds in hours.items()
    ]


def by_hour(lake: Lake, contract: SourceContract, measured: LatenessMeasurement, clock: Clock) -> dict[int, Sequence[int]]:
    """The lateness of the measured rows by the hour of a clock."""
    from lakehouse.lateness import measurement  # noqa: PLC0415 (Arrow loads in a second)

    return measurement.by_hour(lake, contract, measured.first, measured.last, clock)


def print_hours(hours: Mapping[int, Sequence[int]], clock: Clock, timezone: str) -> None:
    """Print the lateness of the rows of each hour."""
    out.print(f"  by hour of the {clock} ({timezone}):", soft_wrap=True)
    for line in hours_as_json(hours):
        spans = ", ".join(f"{name} {duration(line[name])}" for name in ("p50", "p90", "p99", "max"))
        out.print(f"    {line['hour']:02}: {counted(line['rows'])}; {spans}", soft_wrap=True)


app = typer.Typer(
    help="How late rows arrive, the cutoff and the watermark that follow, and the rows that missed their window.",
    no_args_is_help=True,
)

Source = Annotated[str, typer.Argument(help="The dataset of a source contract.")]
Start = Annotated[
    datetime | None,
    typer.Option(
        "--start-date", "--from", formats=["%Y-%m-%d"], help="The first arrival day; default: by lateness.proposal.days."
    ),
]
End = arguments.LastArrivalDay
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class HourOf(str, Enum):
    """The time that determines the hour."""

    EVENT = "event"
    ARRIVAL = "arrival"


@dataclass(frozen=True)
class _Of:
    """A source with its measured lateness."""

    lake: Lake
    contract: SourceContract
    measured: LatenessMeasurement
    newest: date


@app.command()
def report(
    source: Source,
    start_date: Start = None,
    end_date: End = None,
    hours: Annotated[HourOf | None, typer.Option("--by-hour", help="Also by the hour of the event or of the arrival.")] = None,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Show the lateness of each event type and beyond each tier, the dispositions of all rows, and changes of the cutoff."""
    from lakehouse.lateness import cutoff as cutoff_log  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.lateness import measurement, recommendation  # noqa: PLC0415
    from lakehouse.lateness import rules as judging  # noqa: PLC0415

    of = _measured(source, start_date, end_date)
    measured, before = of.measured, cutoff_log.of(of.lake, source)
    late = measurement.sums_of(measurement.late_dispositions(of.lake, of.contract, measured.first, measured.last))
    recommended = recommendation.advice_of_source(of.lake, of.contract, measured)
    if as_json:
        types = [
            {"event_type": entry.event_type, "rows": entry.rows, "on_time": entry.on_time, "max": entry.latest}
            | judging.percentiles(entry.seconds)
            for entry in measured.types
        ]
        fields = {"source": source, "first": measured.first, "last": measured.last, "types": types}
        fields |= {"without_event_time": measured.unclocked, "dispositions": dict(measured.dispositions)}
        fields |= {"skewed": measured.skewed, "history": measured.historical, "tiers": tiers_as_json(of.contract, measured)}
        fields |= {f"late_{name}": count for name, count in late.items()}
        fields |= {"recommendations": [line.as_json() for line in recommended]}
        fields |= {
            f"by_{clock.value}_hour": hours_as_json(by_hour(of.lake, of.contract, measured, clock.value)) for clock in HourOf
        }
        out.print(json.dumps(fields | {"decisions": [asdict(entry) for entry in before]}, default=str), soft_wrap=True)
        return
    out.print(f"{source}, rows that arrived {measured.first} to {measured.last}", style="bold", soft_wrap=True)
    for entry in measured.types:
        percentiles = judging.percentiles(entry.seconds) | {"max": entry.latest}
        spans = [f"{name} {duration(seconds)}" for name, seconds in percentiles.items()]
        share = f"{entry.on_time / entry.rows:.1%} on time"
        out.print(f"  {entry.event_type or 'no type'}: {counted(entry.rows)}, {share}; {', '.join(spans)}", soft_wrap=True)
    print_tiers(of.contract, measured)
    if hours:
        found_hours = by_hour(of.lake, of.contract, measured, hours.value)
        print_hours(found_hours, hours.value, of.contract.clocks.timezone)
    print_left_out(measured, "  ")
    became = ", ".join(f"{count:,} {name}" for name, count in sorted(measured.dispositions.items()))
    out.print(f"  dispositions: {became or 'nothing arrived'}", soft_wrap=True)
    became_of_late = ", ".join(f"{count:,} {name}" for name, count in late.items() if count)
    out.print(f"  of the late rows: {became_of_late or 'none'}", soft_wrap=True)
    for line in recommended:
        out.print(f"  {line.severity.value}: {line.subject}: {line.text}", soft_wrap=True)
    for past in before:
        which = f" of {past.event_type}" if past.event_type else ""
        moved = f"{duration(past.seconds_before)} -> {duration(past.seconds)} from {past.since} on"
        out.print(f"  {past.decided_at:%Y-%m-%d} {past.by}: cutoff{which} {moved}: {past.reason}", soft_wrap=True)


@app.command()
def watermark(
    source: Source,
    at: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d"], help="By what had arrived then (UTC); default: now."),
    ] = None,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Show the event-time watermark: the time before which all data is assumed to have arrived."""
    from lakehouse.lateness import event_watermark  # noqa: PLC0415

    lake, catalog = catalog_with(source)
    then = None if at is None else at.replace(tzinfo=timezone.utc)
    state = event_watermark.of_source(lake, catalog.sources[source], then)
    if state is None:
        errors.print(f"The contract of {source} has no event-time watermark: add one under clocks.watermark.", style="yellow")
        raise typer.Exit(1)
    moved, newest = state.moved_by, state.steps[-1] if state.steps else None
    is_set = state.watermark != event_watermark.BEGINNING
    if as_json:
        fields = {"source": source, "strategy": state.strategy.strategy, "at": state.at}
        fields |= {"watermark": state.watermark if is_set else None, "deliveries": len(state.steps), "skewed": state.skewed}
        fields |= {
            "moved_by": moved.delivery.source_file if moved else None,
            "newest_arrival": newest.arrived if newest else None,
            "held_by": list(state.held_by),
        }
        out.print(json.dumps(fields, default=lambda value: value.isoformat()), soft_wrap=True)
        return
    complete = f"everything before {moment(state.watermark)} is expected to have arrived"
    text = complete if is_set else "nothing is expected to be complete"
    out.print(f"{source}: {text} ({state.strategy.strategy})", style="bold", soft_wrap=True)
    if moved:
        out.print(f"  moved there by {moved.delivery.source_file}, which arrived {moment(moved.arrived)}", soft_wrap=True)
    if state.held_by:
        out.print(f"  held by {', '.join(state.held_by)}: the newest events of these are the oldest")
    if newest:
        out.print(f"  newest arrival: {newest.delivery.source_file}, {moment(newest.arrived)}", soft_wrap=True)
    if state.skewed:
        out.print(f"  {counted(state.skewed)} had an event ahead of its arrival", soft_wrap=True)


@app.command()
def propose(source: Source, start_date: Start = None, end_date: End = None, as_json: AsJson = False) -> None:  # noqa: FBT002
    """Show the proposed cutoff of rows, and the share of rows that other cutoffs would have caught. Read-only."""
    from lakehouse.lateness import measurement  # noqa: PLC0415

    of = _measured(source, start_date, end_date)
    for kind, proposal in measurement.proposals(of.contract, of.measured, _since(of, None)).items():
        severity = proposal.severity(of.contract.lateness.of_type(kind).tuning.catch).value
        if as_json:
            fields = {"source": source, "event_type": kind, **_as_json(proposal), "severity": severity}
            out.print(json.dumps(fields), soft_wrap=True)
            continue
        out.print(f"{source}{f', {kind}' if kind else ''}: {_said(proposal)}", style="bold", soft_wrap=True)
        out.print(f"  {severity}: {proposal.because}", soft_wrap=True)
        for one in proposal.evidence:
            out.print(f"  a cutoff of {duration(one.watermark.total_seconds())} catches {one.share:.2%}", soft_wrap=True)


@app.command()
def apply(
    source: Source,
    *,
    by: Annotated[str, typer.Option(help="Who decides.")],
    reason: Annotated[str, typer.Option(help="Why.")],
    event_type: Annotated[str | None, typer.Option(help="An event type with its own bounds in the contract.")] = None,
    cutoff: Annotated[
        str | None, typer.Option("--cutoff", "--watermark", help="Use this cutoff instead of the proposed one: P3D or PT36H.")
    ] = None,
    since: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="For rows that arrive from this day on; default: tomorrow.")
    ] = None,
    print_only: Annotated[bool, typer.Option("--print", help="Record the decision, and print the contract's new text.")] = False,
) -> None:
    """Change the cutoff: record the decision and add a line to the contract. Earlier rows keep their admission status."""
    from lakehouse.lateness import cutoff as cutoff_log  # noqa: PLC0415
    from lakehouse.lateness import measurement  # noqa: PLC0415

    if not by.strip() or not reason.strip():
        msg = "a decision needs a name (--by) and a reason (--reason)"
        raise typer.BadParameter(msg)
    of = _measured(source, None, None)
    day = _since(of, since)
    proposals = measurement.proposals(of.contract, of.measured, day)
    if event_type not in proposals:
        known = ", ".join(kind for kind in proposals if kind) or "none"
        msg = f"the contract has no separate bounds for {event_type!r} (it has them for {known})"
        raise typer.BadParameter(msg)
    proposal = proposals[event_type]
    wanted = arguments.duration(cutoff) if cutoff else proposal.watermark
    if wanted is None or wanted == proposal.current:
        out.print(f"{source}: {_said(proposal)}; nothing was changed. {proposal.because}", soft_wrap=True)
        return
    path = cutoff_log.file_of(of.lake.settings.contracts, source)
    if path is None:
        errors.print(
            f"The contract of {source} is not in {of.lake.settings.contracts}: put a copy there, which then takes precedence.",
            style="red",
            soft_wrap=True,
        )
        raise typer.Exit(1)
    try:
        text = cutoff_log.with_watermark(path.read_text(encoding="utf-8"), wanted, day, event_type)
    except cutoff_log.PatchError as problem:
        errors.print(f"{path}: {problem}", style="red", soft_wrap=True)
        raise typer.Exit(1) from None
    before = None if proposal.current is None else int(proposal.current.total_seconds())
    evidence = json.dumps(_as_json(proposal)["evidence"])
    moved = cutoff_log.WatermarkDecision(
        source, event_type, before, int(wanted.total_seconds()), day, by, reason, proposal.because, evidence, of.lake.now()
    )
    if print_only:
        cutoff_log.record(of.lake, moved)
        out.print(text, end="", soft_wrap=True)
        return
    try:
        with cutoff_log.replacing(path, text):
            cutoff_log.record(of.lake, moved)
    except OSError as problem:
        errors.print(f"{path} cannot be written, and was left as it is: {problem}", style="red", soft_wrap=True)
        raise typer.Exit(1) from None
    which = f" of {event_type}" if event_type else ""
    moved_to = f"the cutoff{which} is {duration(wanted.total_seconds())} for rows that arrive from {day} on"
    out.print(f"{path}: {moved_to}. Dagster and the API read it when they start again.", soft_wrap=True)


def _measured(source: str, start: datetime | None, end: datetime | None) -> _Of:
    """:raises typer.Exit: if nothing has arrived."""
    from lakehouse.lateness import measurement  # noqa: PLC0415

    lake, catalog = catalog_with(source, reading=True)
    contract = catalog.sources[source]
    newest = measurement.newest_arrival(lake, source)
    if newest is None:
        errors.print(f"Nothing of {source} has arrived.", style="yellow")
        raise typer.Exit(1)
    first, last = measurement.window(end.date() if end else newest, contract.lateness.tuning.days)
    first = start.date() if start else first
    if last < first:
        msg = "--end-date is before --start-date"
        raise typer.BadParameter(msg)
    return _Of(lake, contract, measurement.measure(lake, contract, first, last), newest)


def _since(of: _Of, requested: datetime | None) -> date:
    """:raises typer.BadParameter: if rows of that day have already been assessed."""
    if requested is None:
        return max(of.newest, of.lake.now().date()) + timedelta(days=1)
    if requested.date() <= of.newest:
        msg = f"--since {requested.date()}: rows that arrived on {of.newest} have been judged; a replay would differ"
        raise typer.BadParameter(msg)
    return requested.date()


def _said(found: Proposal) -> str:
    there = "no cutoff" if found.current is None else f"cutoff {duration(found.current.total_seconds())}"
    if not found.moves or found.watermark is None:
        return f"{there} stays"
    return f"{there} -> {duration(found.watermark.total_seconds())}"


def _as_json(proposal: Proposal) -> dict[str, object]:
    seconds = {
        name: None if (span := getattr(proposal, name)) is None else int(span.total_seconds())
        for name in ("current", "watermark", "needed")
    }
    evidence = [{"watermark": int(entry.watermark.total_seconds()), "share": entry.share} for entry in proposal.evidence]
    return {
        "verdict": proposal.verdict.value,
        **seconds,
        "rows": proposal.rows,
        "because": proposal.because,
        "evidence": evidence,
    }
