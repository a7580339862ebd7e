"""``lakehouse model backtest``: compare two versions of a model on the same events, and evaluate the acceptance rules."""

from __future__ import annotations

import getpass
import json
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli import arguments
from lakehouse.cli.commands.model import By, Model, Version, model_named
from lakehouse.cli.console import counted, data_table, errors, number_column, out

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

    from lakehouse.models.backtest_log import Backtest


def backtest(
    model: Model,
    version: Version,
    against: Annotated[str, typer.Option(help="The version to compare it with, such as the one in use.")],
    first_month: Annotated[str, typer.Option("--from", metavar="MONTH", help="The first month of events, such as 2024-10.")],
    last_month: Annotated[str, typer.Option("--to", metavar="MONTH", help="The last month of events.")],
    by: By = "",
    known_at: Annotated[
        datetime | None,
        typer.Option(parser=arguments.moment, metavar="TIME", help="Only what was known by then (UTC); a day means its end."),
    ] = None,
    as_json: arguments.AsJson = False,  # noqa: FBT002
) -> None:
    """Compare a version with another, month by month, on features as known then and as corrected since. Starts Spark."""
    from lakehouse.models.backtests import backtest as backtests  # noqa: PLC0415 (scikit-learn loads in seconds)
    from lakehouse.orchestration.common.resources import LakeSpark  # noqa: PLC0415

    settings, catalog, contract = model_named(model)
    # A mistake is reported before Spark starts.
    backtests.checked_request(settings, contract, version, against, first_month, last_month)
    with errors.status(f"comparing {model} {version} with {against}"):
        done = backtests.backtest(
            *(LakeSpark().spark_session, settings, catalog, contract, version, against, first_month, last_month),
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
