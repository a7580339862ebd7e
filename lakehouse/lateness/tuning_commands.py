"""``lakehouse lateness tuning``, ``tune``, ``pin``, ``unpin`` and ``undo``: the tuning of the event-time watermark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import catalog_with, counted, data_table, number_column, out
from lakehouse.lateness.commands import duration, moment, print_left_out

if TYPE_CHECKING:
    from datetime import timedelta

    from lakehouse.contracts import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.lateness.max_lateness import MaxLatenessDecision
    from lakehouse.lateness.recommendation import Recommendation, TuningState


Source = Annotated[str, typer.Argument(help="The dataset of a source contract.")]


def tuning(source: Source, as_json: arguments.AsJson = False) -> None:  # noqa: FBT002
    """Show the max_lateness in force, the evidence from the newest rows, the alternatives, and the decisions. Read-only."""
    from lakehouse.lateness import recommendation  # noqa: PLC0415 (Arrow loads in a second)

    lake, contract = _source(source)
    state = recommendation.state_of(lake, contract)
    advice = recommendation.recommend(lake, contract, state.in_force.max_lateness)
    if as_json:
        body = {"source": source, **recommendation.state_as_json(state)}
        body["recommendation"] = None if advice is None else recommendation.recommendation_as_json(advice, state.terms.catch)
        out.print(json.dumps(body, default=lambda value: value.isoformat()), soft_wrap=True)
        return
    _print_state(state)
    if advice is None:
        out.print("  nothing has arrived yet", soft_wrap=True)
    else:
        _print_advice(state, advice)
    for decision in state.decided:
        out.print(f"  {moment(decision.decided_at)} {_told(decision)}: {decision.reason}", soft_wrap=True)


def tune(
    source: Source,
    *,
    apply: Annotated[bool, typer.Option("--apply", help="Apply the whole proposal now, whatever its size.")] = False,
    by: arguments.DecidedBy = "",
    reason: arguments.Why = "",
) -> None:
    """Show the proposed max_lateness, or apply it. It applies to later arrivals; no restart is needed."""
    from lakehouse.lateness import recommendation  # noqa: PLC0415
    from lakehouse.lateness import tuning as lateness_tuning  # noqa: PLC0415

    lake, contract = _source(source)
    if apply:
        _decided(lateness_tuning.apply_proposal(lake, contract, by, reason))
        return
    state = recommendation.state_of(lake, contract)
    _print_state(state)
    advice = recommendation.recommend(lake, contract, state.in_force.max_lateness)
    out.print(f"  {_proposed(state, advice) if advice else 'nothing has arrived yet'}", soft_wrap=True)


def pin(
    source: Source,
    *,
    by: arguments.DecidedBy,
    reason: arguments.Why,
    at: Annotated[str | None, typer.Option(help="The value: PT6H or P2D; default: the one in force.")] = None,
) -> None:
    """Keep a max_lateness until it is unpinned: tuning does not change it, and no alert is raised about it."""
    from lakehouse.lateness import tuning as lateness_tuning  # noqa: PLC0415

    lake, contract = _source(source)
    _decided(lateness_tuning.pin(lake, contract, by, reason, arguments.duration(at) if at else None))


def unpin(source: Source, *, by: arguments.DecidedBy, reason: arguments.Why) -> None:
    """Let tuning change a pinned max_lateness again."""
    from lakehouse.lateness import tuning as lateness_tuning  # noqa: PLC0415

    _decided(lateness_tuning.unpin(*_source(source), by, reason))


def undo(source: Source, *, by: arguments.DecidedBy, reason: arguments.Why) -> None:
    """Return to the max_lateness before the newest change, and pin it."""
    from lakehouse.lateness import tuning as lateness_tuning  # noqa: PLC0415

    _decided(lateness_tuning.undo(*_source(source), by, reason))


def _source(source: str) -> tuple[Lake, SourceContract]:
    lake, catalog = catalog_with(source)
    return lake, catalog.sources[source]


def _print_state(state: TuningState) -> None:
    pinned = state.in_force.pinned
    origin = "the contract's value" if not state.in_force.changes else f"the contract says {_span(state.in_force.of_contract)}"
    out.print(f"{state.source}: max_lateness is {_span(state.in_force.max_lateness)} ({origin})", style="bold", soft_wrap=True)
    if pinned:
        out.print(f"  pinned by {pinned.by} on {moment(pinned.decided_at)}: {pinned.reason}", soft_wrap=True)
    elif state.terms.auto:
        bounds = f"within {_span(state.terms.at_least)} and {_span(state.terms.at_most)}"
        out.print(f"  tunes itself by at most {state.terms.band:.0%} a day, {bounds}", soft_wrap=True)


def _print_advice(state: TuningState, advice: Recommendation) -> None:
    from lakehouse.lateness import measurement  # noqa: PLC0415
    from lakehouse.lateness.rules import percentiles  # noqa: PLC0415

    measured = advice.measured
    out.print(f"  {_proposed(state, advice)}", soft_wrap=True)
    out.print(f"  rows that arrived {measured.first} to {measured.last}:", soft_wrap=True)
    kinds = [(entry.event_type or "no type", entry.seconds) for entry in measured.largest_first]
    for kind, seconds in [("all", measurement.together(measured.types)), *kinds] if measured.rows else []:
        spans = ", ".join(f"{name} {duration(value)}" for name, value in percentiles(seconds).items())
        out.print(f"    {kind}: {counted(len(seconds))}; {spans}, max {duration(int(seconds[-1]))}", soft_wrap=True)
    print_left_out(measured, "    ")
    table = data_table()
    table.add_column("max_lateness", no_wrap=True)
    shares = [f"{line.share:.2%}" for line in advice.trade_offs]
    delays = ["-" if line.delay is None else _span(line.delay) for line in advice.trade_offs]
    open_days = [f"{line.open_days}" for line in advice.trade_offs]
    for name, texts in (("share", shares), ("delay", delays), ("open days", open_days)):
        number_column(table, name, texts)
    table.add_column("", overflow="fold")
    proposed = advice.proposal.watermark if advice.proposal.moves else None
    marks = {"in force": state.in_force.max_lateness, "proposed": proposed}
    for line, *texts in zip(advice.trade_offs, shares, delays, open_days):
        table.add_row(_span(line.max_lateness), *texts, ", ".join(name for name in marks if marks[name] == line.max_lateness))
    out.print(table)


def _proposed(state: TuningState, advice: Recommendation) -> str:
    severity = advice.proposal.severity(state.terms.catch).value
    if not advice.proposal.moves:
        return f"it stays ({severity}): {advice.proposal.because}"
    return f"proposed: {_span(advice.proposal.watermark)} ({severity}): {advice.proposal.because}"


def _decided(decision: MaxLatenessDecision) -> None:
    out.print(f"{decision.source}: {_told(decision)}, for what arrives from now on.", soft_wrap=True)


def _told(decision: MaxLatenessDecision) -> str:
    if decision.kind == "unpinned" or decision.seconds == decision.seconds_before:
        return f"{decision.kind} by {decision.by} at {duration(decision.seconds)}"
    return f"{decision.kind} by {decision.by}: {duration(decision.seconds_before)} -> {duration(decision.seconds)}"


def _span(value: timedelta | None) -> str:
    return duration(None if value is None else value.total_seconds())
