"""``lakehouse gold reproduce``: recompute a published number from the inputs of its revision, and compare the two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import counted, deployment, errors, out

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog
    from lakehouse.contracts.series import Series
    from lakehouse.gold.reproduction.reproduce import Reproduced


#: The exit code if no comparison was possible; 1 means that the numbers differ.
_NOT_COMPARED = 2


def reproduce(
    metric: Annotated[str, typer.Argument(help="A metric, or a version by name, such as revenue_v2024-11-07.r2.")],
    period: Annotated[str | None, typer.Argument(help="A day, or a longer period: 2024-11-07, 2024-W45, 2024-11.")] = None,
    revision: Annotated[
        int | None, typer.Option(parser=arguments.revision_number, metavar="REVISION", help="The revision: r2, or 2.")
    ] = None,
    adjustment: Annotated[int | None, typer.Option(help="The number of an adjustment of that revision.", min=1)] = None,
) -> None:
    """Recompute a published number from Bronze. Exit code 0: it is equal; 1: it differs; 2: it cannot be computed."""
    from lakehouse.calendar.periods import UnknownPeriodError  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.gold.numbers.lifecycle import parse_version_name  # noqa: PLC0415

    name = parse_version_name(metric)
    if name is not None and (period is not None or revision is not None or adjustment is not None):
        _stop(f"{metric} contains period and revision; pass only that, or a metric with a period and --revision.")
    if name is not None:
        period, revision, adjustment = name.period, name.revision, name.adjustment
    if period is None or revision is None:
        _stop(f"specify the number: 'lakehouse gold reproduce {metric} 2024-11-07 --revision r2', or a version name.")
    from lakehouse.gold.reproduction import reproduce as tables  # noqa: PLC0415
    from lakehouse.gold.reproduction.recompute import ForgottenContractError, ReproduceError  # noqa: PLC0415
    from lakehouse.orchestration.resources import LakeSpark  # noqa: PLC0415 (Dagster and Spark load in seconds)
    from lakehouse.snapshots.input_sets import UnknownInputsError  # noqa: PLC0415

    lake, catalog = deployment()
    try:
        series = _series(catalog, metric if name is None else name.series, period)
        start = series.metric.publication.calendar.read(period).start
        with errors.status("computing the number again"):
            found = tables.reproduce(lake, catalog, series, start, revision, lambda: LakeSpark().session(), adjustment)
    except (UnknownPeriodError, UnknownInputsError, ForgottenContractError, ReproduceError) as problem:
        _stop(f"{problem}.")
    _print(found)
    raise typer.Exit(0 if found.equal else 1)


def _series(catalog: Catalog, name: str, period: str) -> Series:
    """The series of a table or metric, with periods of the kind of ``period``.

    :raises UnknownPeriodError: if the text names no period.
    """
    from lakehouse.calendar.periods import Calendar  # noqa: PLC0415
    from lakehouse.contracts.series import Series  # noqa: PLC0415

    kind = Calendar().read(period).kind
    series_by_name: dict[str, Series] = {}
    for metric in sorted(catalog.metrics.values(), key=lambda metric: metric.dataset_version):
        for called in (metric.metric, metric.name):
            series = Series(metric, kind, called)
            series_by_name.setdefault(series.name, series)
            series_by_name.setdefault(called, series)
    if name not in series_by_name:
        known = ", ".join(sorted({metric.name for metric in catalog.metrics.values()})) or "none"
        _stop(f"No contract has 'metric: {name}'; known are {known}.")
    return series_by_name[name]


def _print(result: Reproduced) -> None:
    from lakehouse.gold.reproduction.reproduce import LISTED  # noqa: PLC0415 (Arrow loads in a second)

    out.print(f"{result.name}, computed again from Bronze, {_verdict(result)}.", style="bold", soft_wrap=True)
    _say(f"compared: {', '.join(result.compared)} ({counted(len(result.rows))})")
    _say(f"code: {result.code_then} then, {result.code_now} now")
    _say(f"contract: {result.contract_then} then, {result.contract_now} now")
    if not result.certain:
        _say("the source's contract of that time is not stored: silver was computed under the current one")
    for key, fields in sorted(result.hidden.items()):
        _say(f"redacted since: {', '.join(fields)} of {key}")
    if result.close:
        _say(f"the last digits of {', '.join(result.close)} depend on the order of rows: give it a decimal type")
    for one in result.differences[:LISTED]:
        where = ", ".join(f"{name} {_shown(value)}" for name, value in one.grain.items())
        _say(f"{f'{where}: ' if where else ''}{one.column}: {_shown(one.stored)} published, {_shown(one.again)} computed again")
    if len(result.differences) > LISTED:
        _say(f"and {len(result.differences) - LISTED:,} more cells")


def _verdict(result: Reproduced) -> str:
    if not result.equal:
        return "differs"
    return "is equal except for redacted values" if result.hidden else "is equal"


def _shown(value: Any) -> str:
    return "nothing" if value is None else f"{value}"


def _say(text: str) -> None:
    out.print(f"    {text}", soft_wrap=True)


def _stop(text: str) -> NoReturn:
    errors.print(text, style="red", highlight=False, soft_wrap=True)
    raise typer.Exit(_NOT_COMPARED)
