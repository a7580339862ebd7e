"""Whether the sources of a metric fit each other: their columns, types, time zones, and the rows read from each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.contracts.base import SYSTEM_COLUMNS
from lakehouse.contracts.windows.event_window import WINDOW_START

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.several_sources.metric_source import MetricSource
    from lakehouse.contracts.source import SourceContract

_INTEGERS = ("int", "bigint")
_Misfit = tuple[tuple[int | str, ...], str]


def misfits(metric: MetricContract, sources: Mapping[str, SourceContract]) -> Iterator[_Misfit]:
    """The mistakes in a metric's sources: where in the metric's file, and what to do.

    :param sources: all sources of the deployment.
    """
    unfit = [*_not_events(metric, sources)]
    yield from unfit
    if unfit or not metric.sources:
        return
    first = sources[metric.source]
    fields = [field.name for field in first.typed_fields]
    read = metric.columns_read(fields)
    for position, entry in enumerate(metric.sources):
        contract, at = sources[entry.source], ("sources", position)
        if contract.clocks.timezone != first.clocks.timezone:
            theirs, ours = contract.clocks.timezone, first.clocks.timezone
            text = f"the event days of {entry.source} are those of {theirs}, and of {metric.source} those of {ours}; one number "
            yield (*at, "source"), f"{text}cannot have both: give the sources the same 'clocks.timezone', or make two metrics"
        if entry.rows is not None and contract.materialization.reprocess_policy != "append":
            text = f"{entry.source} has one row per key; leave the key out, it is for sources under 'reprocess_policy: append'"
            yield (*at, "rows"), text
        yield from ((((*at, "columns"), text)) for text in _misfits_of_columns(entry, metric, contract, first, read))
    yield from ((("deduplicate_by",), text) for text in _misfits_of_duplicates(metric, first))
    brought = {name for join in metric.joins for name in join.names}
    own = {WINDOW_START} if metric.event_window else set()
    unknown = [name for name in metric.grain if name not in {*fields, *SYSTEM_COLUMNS, *brought, *own}]
    if unknown:
        yield ("grain",), f"{', '.join(unknown)} is neither a field of {metric.source} nor brought by a join"


def wider(types: set[str]) -> str | None:
    """The common type of ``types``; None if there is none."""
    if types <= set(_INTEGERS) and len(types) > 1:
        return "bigint"
    return next(iter(types)) if len(types) == 1 else None


def _not_events(metric: MetricContract, sources: Mapping[str, SourceContract]) -> Iterator[_Misfit]:
    known = ", ".join(sorted(name for name, contract in sources.items() if not contract.is_dimension)) or "none"
    for position, entry in enumerate(metric.sources):
        contract = sources.get(entry.source)
        if contract is None or contract.is_dimension:
            what = "is a dimension, which is joined" if contract is not None else "is no source"
            yield ("sources", position, "source"), f"{entry.source!r} {what}; the sources of events are: {known}"


def _misfits_of_columns(
    entry: MetricSource, metric: MetricContract, contract: SourceContract, first: SourceContract, read: list[str]
) -> Iterator[str]:
    ours = {field.name: field.type for field in first.typed_fields}
    theirs = {field.name: field.type for field in contract.typed_fields}
    for name, column in entry.columns.items():
        if name not in ours:
            yield f"{name} is no field of {metric.source}, whose names the metric has; its fields are {', '.join(ours)}"
        if column not in theirs:
            yield f"{column} is no field of {entry.source}; its fields are {', '.join(theirs)}"
    for name in dict.fromkeys([*read, *(name for name in entry.columns if name in ours)]):
        column = entry.column(name)
        if column not in theirs and name not in entry.columns:
            yield (
                f"{metric.name} reads {name}, and {entry.source} has no field of that name; write '{{{name}: ...}}' with one of "
                f"{', '.join(theirs)}"
            )
        elif column in theirs and wider({ours[name], theirs[column]}) is None:
            types = f"{name} is a {ours[name]} in {metric.source}, and {column} of {entry.source} a {theirs[column]}"
            yield f"{types}; give both the same type"


def _misfits_of_duplicates(metric: MetricContract, first: SourceContract) -> Iterator[str]:
    types = {field.name: field.type for field in first.typed_fields}
    for name in metric.deduplicate_by:
        if name not in types:
            yield f"{name} is no field of {metric.source}; its fields are {', '.join(types)}"
        elif types[name] in ("double", "timestamp"):
            yield f"{name} is a {types[name]}, which two sources do not give exactly alike; name other columns"
