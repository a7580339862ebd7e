"""What commands about published numbers share: which series a metric and a period mean, and which version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.console import deployment, errors

if TYPE_CHECKING:
    from datetime import datetime

    from lakehouse.calendar.periods import Kind, Period
    from lakehouse.contracts import Catalog, MetricContract
    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.version_selector import VersionSelector
    from lakehouse.settings import Settings

DAY = ["%Y-%m-%d"]
Metric = Annotated[str, typer.Argument(help="The name of a metric contract.")]
PeriodName = Annotated[str, typer.Argument(metavar="PERIOD", help="2024-01-15, 2024-W03, 2024-01, 2024-Q1, FY2024-Q1 or FY2024.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def metric_named(name: str) -> tuple[Settings, Catalog, MetricContract]:
    """The settings, the contracts, and the metric of that name.

    :raises typer.Exit: for a metric that no contract describes.
    """
    settings, catalog = deployment()
    if name not in catalog.metrics:
        known = ", ".join(sorted(catalog.metrics)) or "none"
        errors.print(f"No contract has 'metric: {name}'; known are {known}.", style="red")
        raise typer.Exit(2)
    return settings, catalog, catalog.metrics[name]


def series_of(settings: Settings, catalog: Catalog, metric: MetricContract, kind: Kind) -> Series:
    """The table that holds a metric's numbers for a kind of period, as readers see it.

    :raises typer.BadParameter: where the metric is not published for it.
    """
    from lakehouse.calendar.periods import Kind  # noqa: PLC0415
    from lakehouse.contracts.series import Series  # noqa: PLC0415
    from lakehouse.gold.numbers import served_version  # noqa: PLC0415

    daily = served_version.daily(settings, catalog, metric)
    if kind is Kind.DAY:
        return daily
    if kind.value not in metric.publication.rollups:
        msg = (
            f"{metric.name} is published by {', '.join(['day', *metric.publication.rollups])}, and not by {kind.value}; "
            "'publication.rollups' of its contract says so"
        )
        raise typer.BadParameter(msg)
    return Series(daily.metric, kind, daily.called)


def period_of(metric: MetricContract, text: str) -> Period:
    """The period of a name.

    :raises typer.BadParameter: for a text that names none.
    """
    from lakehouse.calendar.periods import UnknownPeriodError  # noqa: PLC0415

    try:
        return metric.publication.calendar.parse(text)
    except UnknownPeriodError as problem:
        raise typer.BadParameter(str(problem)) from None


@dataclass(frozen=True)
class About:
    """The published numbers that a command is about."""

    settings: Settings
    catalog: Catalog
    series: Series
    period: Period


def about(metric: str, period: str) -> About:
    """What a metric and a period mean: the table as readers see it.

    :raises typer.Exit: for a metric that no contract describes.
    :raises typer.BadParameter: for a text that names no period, or one that the metric is not published for.
    """
    settings, catalog, contract = metric_named(metric)
    wanted = period_of(contract, period)
    return About(settings, catalog, series_of(settings, catalog, contract, wanted.kind), wanted)


def asked_for(text: str) -> VersionSelector:
    """The version that a text names.

    :raises typer.BadParameter: for a text that names none.
    """
    from lakehouse.gold.numbers import version_selector  # noqa: PLC0415

    try:
        return version_selector.parse(text)
    except version_selector.UnknownVersionError as problem:
        raise typer.BadParameter(str(problem)) from None


def moment(text: str) -> datetime:
    """The time that an option names; a day means its end (UTC).

    :raises typer.BadParameter: for what is no time.
    """
    found = asked_for(text)
    if found.at is None:
        msg = f"{text!r} is no time; write 2024-11-08 or 2024-11-08T06:00:00Z"
        raise typer.BadParameter(msg)
    return found.at


def revision_number(text: str) -> int:
    """The number of a revision as people write it: r3, or 3.

    :raises typer.BadParameter: for anything else.
    """
    plain = text.strip().removeprefix("r")
    if not plain.isascii() or not plain.isdigit() or not int(plain):
        msg = f"a revision is written as r3 or 3, not {text!r}"
        raise typer.BadParameter(msg)
    return int(plain)


def dataset_version(text: str) -> int:
    """The number of a dataset version as people write it: v2, or 2.

    :raises typer.BadParameter: for anything else.
    """
    if not text.removeprefix("v").isdecimal() or not int(text.removeprefix("v")):
        msg = f"{text!r} is no dataset version; name one as in v2"
        raise typer.BadParameter(msg)
    return int(text.removeprefix("v"))
