"""``lakehouse model score``, ``canary`` and ``backtest``: try a version of a model before it is promoted.

They score events, let a challenger score a share of the entities, and compare two versions on the same events by the acceptance
rules.
"""

from __future__ import annotations

import getpass
import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import counted, data_table, errors, number_column, out
from lakehouse.models.commands import By, Model, Version, model_named

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

    from pyspark.sql import SparkSession
    from rich.table import Table

    from lakehouse.models.backtest_log import Backtest
    from lakehouse.models.canary import CanaryStatus
    from lakehouse.models.score_checks import DayComparison


@dataclass(frozen=True)
class MonthsOfEvents:
    """The months whose events a backtest compares."""

    first_month: Annotated[str, typer.Option("--from", metavar="MONTH", help="The first month of events, such as 2024-10.")]
    last_month: Annotated[str, typer.Option("--to", metavar="MONTH", help="The last month of events.")]


@arguments.with_groups
def backtest(
    model: Model,
    version: Version,
    against: Annotated[str, typer.Option(help="The version to compare it with, such as the one in use.")],
    months: MonthsOfEvents,
    by: By = "",
    known_at: Annotated[
        datetime | None,
        typer.Option(parser=arguments.moment, metavar="TIME", help="Only what was known by then (UTC); a day means its end."),
    ] = None,
    as_json: arguments.AsJson = False,  # noqa: FBT002
) -> None:
    """Compare a version with another, month by month, on features as known then and as corrected since. Starts Spark."""
    from lakehouse.models import backtest as backtests  # noqa: PLC0415 (scikit-learn loads in seconds)
    from lakehouse.orchestration.resources import LakeSpark  # noqa: PLC0415

    lake, catalog, contract = model_named(model)
    # A mistake is reported before Spark starts.
    request = backtests.BacktestRequest(version, against, months.first_month, months.last_month)
    backtests.checked_request(lake, contract, request)
    with errors.status(f"comparing {model} {version} with {against}"):
        done = backtests.backtest(
            *(LakeSpark().spark_session, lake, catalog, contract, request),
            by=by or getpass.getuser(),
            known_at=known_at,
        )
    if as_json:
        out.print(json.dumps(asdict(done), default=str, ensure_ascii=False), soft_wrap=True)
    else:
        print_backtest(done)


def print_backtest(done: Backtest) -> None:
    """Print the measures by month, the verdicts, and the address of the report."""
    judged = done.results["judged"]
    for reading, result in done.results["readings"].items():
        parts = {**result["months"], "total": result["total"]} if reading == judged else {"total": result["total"]}
        print_parts(f"{done.model} {done.title}, features {reading.replace('_', ' ')}", done.against, done.version, parts)
    for remark in done.results["remarks"]:
        errors.print(f"{remark}.", style="yellow", highlight=False, soft_wrap=True)
    print_rules(done.results["readings"][judged]["rules"])
    rules_text = "The acceptance rules are met." if done.passed else "The acceptance rules are not met:"
    out.print(rules_text if done.results["readings"][judged]["rules"] else "The model has no acceptance rules.")
    for sentence in done.failed:
        out.print(f"    {sentence}", soft_wrap=True)
    out.print(f"The report: {done.report}/report.html (.md, .json)", soft_wrap=True)


def print_parts(title: str, champion: str, challenger: str, parts: Mapping[str, Any]) -> None:
    """Print the measures of ``parts`` of a stored comparison: both versions and the difference, with intervals."""
    out.print(parts_table(title, champion, challenger, parts))


def parts_table(title: str, champion: str, challenger: str, parts: Mapping[str, Any]) -> Table:
    """The measures of ``parts`` as a table."""
    rows = [
        (name, measure, [_number(sides["champion"]), _number(sides["challenger"]), _number(sides["difference"], sign="+")])
        for name, part in parts.items()
        for measure, sides in part["measures"].items()
    ]
    table = data_table(title)
    table.add_column("month", no_wrap=True)
    table.add_column("measure", overflow="fold")
    for place, heading in enumerate((champion, challenger, "difference")):
        number_column(table, heading, [line for _, _, numbers in rows for line in numbers[place].splitlines()])
    before = None
    for name, measure, numbers in rows:
        table.add_row("" if name == before else _about(name, parts[name]), measure.replace("_", " "), *numbers)
        before = name
    return table


def _about(name: str, part: Mapping[str, Any]) -> str:
    """A part with its rows and, for probabilities, the number of labels 1."""
    positives = "" if part["positives"] is None else f"\n{part['positives']:,} with 1"
    return f"{name}\n{counted(part['rows'])}{positives}"


def print_rules(rules: list[Mapping[str, Any]]) -> None:
    """Print the stored verdicts of acceptance rules."""
    for rule in rules:
        about = f"{rule['rule']} ({rule['segment']}, {counted(rule['rows'])})" if rule["segment"] else rule["rule"]
        gain = "not measured" if rule["gain"] is None else f"{rule['gain']:+.4f}"
        out.print(f"{about}: {rule['verdict']} ({gain})", soft_wrap=True)


def _number(estimate: Mapping[str, float | None], sign: str = "") -> str:
    """A number with its interval below."""
    if estimate["value"] is None:
        return "-"
    value = f"{estimate['value']:{sign}.4f}"
    return value if estimate["low"] is None else f"{value}\n{estimate['low']:{sign}.3f}, {estimate['high']:{sign}.3f}"


app = typer.Typer(help="Canaries of models: start, status, compare, stop.", no_args_is_help=True)

_Reason = Annotated[str, typer.Option(help="Why, in words for people.")]


def score(
    model: Model,
    first: Annotated[datetime, typer.Option("--from", formats=arguments.DAY, help="The first event day.")],
    last: Annotated[
        datetime | None, typer.Option("--to", formats=arguments.DAY, help="The last event day; default: the first one.")
    ] = None,
    by: By = "",
) -> None:
    """Score the events of a range of days with the champion, and of a running canary also with its challenger. Starts Spark."""
    from lakehouse.calendar.days import span  # noqa: PLC0415
    from lakehouse.models import score as scoring  # noqa: PLC0415 (scikit-learn loads in seconds)

    lake, catalog, contract = model_named(model)
    days = list(span(first.date(), (last or first).date()))
    if not days:
        msg = "the days end before they begin; exchange --from and --to"
        raise typer.BadParameter(msg)
    scoring.champion_of(lake, contract)  # a mistake is reported before Spark starts
    who = by or getpass.getuser()
    with errors.status(f"scoring {len(days):,} days"):
        done = scoring.score(_session(), lake, catalog, contract, days, run_id=f"cli:{who}", by=who)
    table = data_table()
    table.add_column("event day", no_wrap=True)
    number_column(table, "events", [f"{day.events:,}" for day in done])
    number_column(table, "in the canary", [f"{day.in_canary:,}" for day in done])
    for day in done:
        table.add_row(f"{day.day}", f"{day.events:,}", f"{day.in_canary:,}")
    out.print(table)
    total = sum(day.events for day in done)
    challenger = done[-1].challenger
    canary = f"; {sum(day.in_canary for day in done):,} of them are served by {challenger}" if challenger else ""
    out.print(f"{counted(total)} scored by {done[-1].champion}{canary}.", soft_wrap=True)


@app.command()
def start(
    model: Model,
    version: Version,
    reason: _Reason,
    by: By = "",
    share: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Of the entities, such as 10%; default: that of the contract.")
    ] = None,
    salt: Annotated[str | None, typer.Option(help="Another text selects other entities; default: that of the contract.")] = None,
) -> None:
    """Let a version score a share of the entities in place of the champion, from the next scoring on."""
    from lakehouse.models import canary  # noqa: PLC0415 (scikit-learn loads in seconds)

    lake, _, contract = model_named(model)
    wanted = None if share is None else _share(share)
    entry = canary.start(lake, contract, version, by=by or getpass.getuser(), reason=reason, share=wanted, salt=salt)
    out.print(f"Started: {entry.title}.", soft_wrap=True)
    out.print(f"'lakehouse model canary status {model}' judges it by the labels that are mature.", soft_wrap=True)


@app.command()
def status(model: Model, by: By = "", as_json: arguments.AsJson = False) -> None:  # noqa: FBT002
    """Judge the canary by the mature labels. Starts Spark if there are scores."""
    from lakehouse.models import canary  # noqa: PLC0415
    from lakehouse.models.backtest_log import stored_reading  # noqa: PLC0415 (scikit-learn loads in seconds)

    lake, catalog, contract = model_named(model)
    with errors.status("comparing both versions on mature labels"):
        done = canary.judge(_session, lake, catalog, contract, by=by or getpass.getuser())
    if not as_json:
        _print_status(done)
        return
    values = {
        "canary": {name: value for name, value in vars(done.entry).items() if name != "results"},
        "outcome": done.outcome.value,
        "scored": done.scored,
        "labels": done.labels,
        "needs_labels": done.needs_labels,
        "results": None if done.result is None else stored_reading(done.result),
    }
    out.print(json.dumps(values, default=str, ensure_ascii=False), soft_wrap=True)


@app.command()
def stop(model: Model, reason: _Reason, by: By = "") -> None:
    """End the canary: from the next scoring on, only the champion scores."""
    from lakehouse.models import canary  # noqa: PLC0415 (scikit-learn loads in seconds)

    lake, _, _ = model_named(model)
    ended = canary.stop(lake, model, by=by or getpass.getuser(), reason=reason)
    judged = f"it was judged: {ended.outcome.value} on {ended.labels:,} labels" if ended.outcome else "it was never judged"
    out.print(f"Stopped: {ended.title}; {judged}.", soft_wrap=True)


@app.command()
def compare(
    model: Model,
    day: Annotated[datetime, typer.Option("--date", formats=arguments.DAY, help="An event day that was scored by both.")],
    as_json: arguments.AsJson = False,  # noqa: FBT002
) -> None:
    """Compare both versions' scores on a day of the newest canary; needs no labels and no Spark."""
    from lakehouse.models import canary, canary_log, score_checks  # noqa: PLC0415 (scikit-learn loads in seconds)

    lake, _, _ = model_named(model)
    canaries = canary_log.of(lake, model)
    if not canaries:
        errors.print(f"{model} has had no canary.", style="red", highlight=False)
        raise typer.Exit(1)
    newest = canaries[-1]
    until = newest.stopped.recorded_at if newest.stopped else None
    done = score_checks.compare_day(day.date(), canary.scores_of_both(lake, newest.started, until))
    if done is None:
        how = f"'lakehouse model score {model} --from {day.date()}' scores it"
        out.print(f"No entity of the {newest.started.title} has both scores on {day.date()}; {how}.", soft_wrap=True)
    elif as_json:
        from dataclasses import asdict  # noqa: PLC0415

        out.print(json.dumps(asdict(done), default=str, ensure_ascii=False), soft_wrap=True)
    else:
        _print_day(done, newest.started.champion, newest.started.challenger)


def _print_status(done: CanaryStatus) -> None:
    from lakehouse.models.backtest_log import stored_reading  # noqa: PLC0415

    entry = done.entry
    out.print(f"{entry.title}, started by {entry.by} on {entry.recorded_at:%Y-%m-%d}: {entry.reason}", soft_wrap=True)
    if done.result is not None:
        stored = stored_reading(done.result)
        parts = {**stored["months"], "total": stored["total"]}
        print_parts(f"{counted(done.labels)} with a mature label", entry.champion, entry.challenger, parts)
        print_rules(stored["rules"])
    labels = f"{done.labels:,} mature labels of {done.scored:,} scored entities; {done.needs_labels:,} are needed"
    out.print(f"Success criteria: {done.outcome.value} ({labels}).", soft_wrap=True)


def _print_day(done: DayComparison, champion: str, challenger: str) -> None:
    correlation = "" if done.correlation is None else f", correlation {done.correlation:.4f}"
    out.print(
        f"{done.day}: {done.entities:,} entities were scored by both. Mean {champion} {done.champion_mean:.4f}, "
        f"{challenger} {done.challenger_mean:.4f}; mean distance of the scores {done.mean_difference:.4f}, greatest distance of "
        f"their distributions {done.distance:.4f}{correlation}; {done.decisions:,} predictions differ.",
        soft_wrap=True,
    )
    table = data_table("Furthest apart")
    table.add_column("record key", overflow="fold")
    number_column(table, champion, [f"{entity.champion:.4f}" for entity in done.furthest])
    number_column(table, challenger, [f"{entity.challenger:.4f}" for entity in done.furthest])
    for entity in done.furthest:
        table.add_row(entity.record_key, f"{entity.champion:.4f}", f"{entity.challenger:.4f}")
    out.print(table)


def _share(text: str) -> Decimal:
    """Parse a share as in a contract: 10%, or 0.1.

    :raises typer.BadParameter: if the text has another form.
    """
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415

    from lakehouse.contracts.model import Percentage  # noqa: PLC0415

    try:
        share: Decimal = TypeAdapter(Percentage).validate_python(text)
    except ValidationError:
        msg = f"{text!r} is no share; write 10% or 0.1"
        raise typer.BadParameter(msg) from None
    return share


def _session() -> SparkSession:
    from lakehouse.orchestration.resources import LakeSpark  # noqa: PLC0415 (Dagster loads in a second)

    return LakeSpark().spark_session
