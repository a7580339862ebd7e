"""Arguments and options that several commands have, and the lookup of series, periods and versions."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import date, datetime, timedelta
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from lakehouse.cli.console import deployment, errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakehouse.calendar.periods import Kind, Period
    from lakehouse.contracts import Catalog, MetricContract, SourceContract
    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.version_selector import VersionSelector
    from lakehouse.lake import Lake

_T = TypeVar("_T")
DAY = ["%Y-%m-%d"]
Metric = Annotated[str, typer.Argument(help="The name of a metric contract.")]
PeriodName = Annotated[str, typer.Argument(metavar="PERIOD", help="2024-01-15, 2024-W03, 2024-01, 2024-Q1, FY2024-Q1 or FY2024.")]
PeriodOrWindow = Annotated[
    str, typer.Argument(metavar="PERIOD", help="A period such as 2024-01-15 or 2024-W03, or a window of a day: 2024-01-15T14.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
FirstEventDay = Annotated[datetime | None, typer.Option("--start-date", "--from", formats=DAY, help="The first event day.")]
LastEventDay = Annotated[datetime | None, typer.Option("--end-date", "--to", formats=DAY, help="The last event day.")]
FirstArrivalDay = Annotated[
    datetime | None, typer.Option("--start-date", "--from", formats=DAY, help="The first arrival day; default: the oldest.")
]
LastArrivalDay = Annotated[
    datetime | None, typer.Option("--end-date", "--to", formats=DAY, help="The last arrival day; default: the newest.")
]
DecidedBy = Annotated[str, typer.Option("--by", help="Who decides.")]
DoneBy = Annotated[str, typer.Option("--by", help="Who does it.")]
Why = Annotated[str, typer.Option("--reason", help="Why.")]
WhyForReaders = Annotated[str, typer.Option("--reason", help="Why, in words for the readers.")]


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """A command that takes groups of options: each parameter that is a dataclass stands for its fields.

    On the command line the fields are options like others, in their order, at the place of the parameter. The command gets an
    instance. Typer reads ``__signature__`` and ``__annotations__``, and passes each value by its name.
    """
    own = signature(command, eval_str=True).parameters  # get_type_hints() of Python 3.10 hides an Annotated whose default is None
    declared = {name: parameter.annotation for name, parameter in own.items()}
    groups = {name: declares for name, declares in declared.items() if isinstance(declares, type) and is_dataclass(declares)}
    expanded: list[Parameter] = []
    for parameter in own.values():
        if parameter.name not in groups:
            expanded.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
            continue
        group = groups[parameter.name]
        of_fields = get_type_hints(group, include_extras=True)
        for item in fields(group):
            default = Parameter.empty if item.default is MISSING else item.default
            expanded.append(Parameter(item.name, Parameter.KEYWORD_ONLY, default=default, annotation=of_fields[item.name]))

    @wraps(command)
    def called(**values: Any) -> None:
        made = {name: group(**{item.name: values.pop(item.name) for item in fields(group)}) for name, group in groups.items()}
        command(**values, **made)

    called.__signature__ = Signature(expanded)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in expanded}
    return called


@dataclass(frozen=True)
class SignedDecision:
    """The person who decides, and why."""

    by: DecidedBy
    reason: Why


@dataclass(frozen=True)
class ArrivalDays:
    """The arrival days that a command is about: by default all that Bronze has."""

    start_date: FirstArrivalDay = None
    end_date: LastArrivalDay = None

    @property
    def days(self) -> tuple[date | None, date | None]:
        """The first and the last one."""
        first, last = (moment and moment.date() for moment in (self.start_date, self.end_date))
        return first, last


def metric_named(name: str, *, reading: bool = False) -> tuple[Lake, Catalog, MetricContract]:
    """The lake, the contracts, and the metric ``name``.

    :param reading: for a command that only reads, see :func:`lakehouse.cli.console.deployment`.
    :raises typer.Exit: if no contract describes the metric.
    """
    from lakehouse.gold.numbers import version_selector  # noqa: PLC0415

    lake, catalog = deployment(reading=reading)
    try:
        return lake, catalog, version_selector.find_metric(catalog, name)
    except version_selector.UnknownMetricError as problem:
        errors.print(f"{problem}", style="red")
        raise typer.Exit(2) from None


def live_metric_named(name: str) -> tuple[Lake, MetricContract, SourceContract]:
    """The lake, the metric ``name``, which must have a speed layer, and its source.

    :raises typer.Exit: if no contract describes the metric, or it has no speed layer.
    """
    lake, catalog, metric = metric_named(name)
    if metric.live is None:
        errors.print(f"{name} has no speed layer; add 'live: true' to its contract.", style="red")
        raise typer.Exit(2)
    return lake, metric, catalog.sources[metric.source]


def series_of(lake: Lake, catalog: Catalog, metric: MetricContract, kind: Kind) -> Series:
    """The table of a metric's numbers for a kind of period, as visible to readers.

    :raises typer.BadParameter: if the metric is not published for that kind.
    """
    from lakehouse.gold.numbers import served_version, version_selector  # noqa: PLC0415

    try:
        return version_selector.series_for(metric, kind, served_version.daily(lake, catalog, metric))
    except version_selector.UnpublishedKindError as problem:
        msg = f"{problem}; see 'publication.rollups' in its contract"
        raise typer.BadParameter(msg) from None


def period_of(metric: MetricContract, text: str) -> Period:
    """The period named by ``text``.

    :raises typer.BadParameter: if ``text`` names no period.
    """
    period, window = period_or_window(metric, text)
    if window is not None:
        msg = f"{text!r} is no period: it is a window of {period.name}, and this is done for the whole day; name that"
        raise typer.BadParameter(msg)
    return period


def period_or_window(metric: MetricContract, text: str) -> tuple[Period, datetime | None]:
    """The period named by ``text``; for a window, its day and its first moment.

    :raises typer.BadParameter: if ``text`` names neither.
    """
    from lakehouse.calendar.periods import UnknownPeriodError  # noqa: PLC0415
    from lakehouse.calendar.windows import UnknownWindowError  # noqa: PLC0415
    from lakehouse.contracts.series import read_period  # noqa: PLC0415

    try:
        return read_period(metric, text)
    except (UnknownPeriodError, UnknownWindowError) as problem:
        raise typer.BadParameter(str(problem)) from None


@dataclass(frozen=True)
class About:
    """The published numbers that a command refers to.

    :param window: the first moment of a window, if one is meant and not the whole period.
    """

    lake: Lake
    catalog: Catalog
    series: Series
    period: Period
    window: datetime | None = None


def about(metric: str, period: str) -> About:
    """The published numbers of a metric and a period, in the table that readers see.

    :raises typer.Exit: if no contract describes the metric.
    :raises typer.BadParameter: if the text names no period, or a kind of period for which the metric is not published.
    """
    lake, catalog, contract = metric_named(metric)
    wanted = period_of(contract, period)
    return About(lake, catalog, series_of(lake, catalog, contract, wanted.kind), wanted)


def about_window(metric: str, period: str) -> About:
    """Like :func:`about`, but the text may also name a window of a day: for commands that only show numbers.

    :raises typer.Exit: if no contract describes the metric.
    :raises typer.BadParameter: if the text names neither, or a kind of period for which the metric is not published.
    """
    lake, catalog, contract = metric_named(metric, reading=True)
    wanted, window = period_or_window(contract, period)
    series = series_of(lake, catalog, contract, wanted.kind)
    warn_if_deprecated(series.metric)
    return About(lake, catalog, series, wanted, window)


def warn_if_deprecated(metric: MetricContract) -> None:
    """Print until when the numbers of a metric are published, if they are deprecated."""
    if metric.deprecation:
        errors.print(f"{metric.deprecation}.", style="yellow", soft_wrap=True)


def asked_for(text: str) -> VersionSelector:
    """The version selector named by ``text``.

    :raises typer.BadParameter: if ``text`` names no version.
    """
    from lakehouse.gold.numbers import version_selector  # noqa: PLC0415

    return _parsed(version_selector.parse, text)


def moment(text: str) -> datetime:
    """The time that an option names; a day means its end (UTC).

    :raises typer.BadParameter: if the text is not a time.
    """
    from lakehouse.gold.numbers import version_selector  # noqa: PLC0415

    return _parsed(version_selector.parse_moment, text)


def revision_number(text: str) -> int:
    """The number of a revision as people write it: r3, or 3.

    :raises typer.BadParameter: if the text has another form.
    """
    from lakehouse.gold.numbers import version_selector  # noqa: PLC0415

    return _parsed(version_selector.parse_revision, text)


def dataset_version(text: str) -> int:
    """The number of a dataset version as people write it: v2, or 2.

    :raises typer.BadParameter: if the text has another form.
    """
    from lakehouse.gold.numbers import version_selector  # noqa: PLC0415

    return _parsed(version_selector.parse_dataset_version, text)


def _parsed(parse: Callable[[str], _T], text: str) -> _T:
    from lakehouse.gold.numbers.version_selector import UnknownVersionError  # noqa: PLC0415

    try:
        return parse(text)
    except UnknownVersionError as problem:
        raise typer.BadParameter(f"{problem}") from None


def duration(text: str) -> timedelta:
    """A duration in ISO 8601, such as P3D or PT36H.

    :raises typer.BadParameter: if the text is not a duration.
    """
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415

    try:
        span = TypeAdapter(timedelta).validate_python(text)
    except ValidationError:
        span = timedelta(-1)
    if span < timedelta(0):
        msg = f"{text!r} is not a duration; write P3D or PT36H"
        raise typer.BadParameter(msg)
    return span
