"""Whether the joins of a metric fit the sources of the deployment: the dimension, its key, the columns and their types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.contracts.base import SYSTEM_COLUMNS
from lakehouse.contracts.joins.join import brought_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakehouse.contracts.joins.join import Join
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract

_INTEGERS = ("int", "bigint")
#: Types whose values have several texts, or no exact text.
_NO_KEYS = ("double", "timestamp")
_MOST_SCALE = 6


def misfits(metric: MetricContract, sources: Mapping[str, SourceContract]) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """The mistakes in a metric's joins: where in the metric's file, and what to do.

    :param sources: all sources of the deployment, including the metric's source.
    """
    facts = {field.name: field.type for field in sources[metric.source].typed_fields}
    taken = {*facts, *SYSTEM_COLUMNS, "event_date", "event_ts"}
    for position, join in enumerate(metric.joins):
        dimension = sources.get(join.dimension)
        at = ("joins", position)
        if dimension is None or not dimension.is_dimension:
            known = ", ".join(sorted(name for name, source in sources.items() if source.is_dimension)) or "none"
            what = "is an event source" if dimension is not None else "is no source"
            yield (*at, "dimension"), f"{join.dimension!r} {what}; the sources with 'kind: dimension' are: {known}"
            continue
        attributes = {field.name: field.type for field in dimension.typed_fields}
        unknown = [column for column, _ in join.attributes if column not in attributes]
        if unknown:
            listed = ", ".join(attributes)
            yield (*at, "columns"), f"{join.dimension} has no field {', '.join(unknown)}; its fields are {listed}"
        clashing = sorted(taken.intersection(join.names))
        if clashing:
            example = f"'{{{clashing[0]}: {join.dimension}_{clashing[0]}}}'"
            text = f"{', '.join(clashing)} is a column of {metric.source}; give the attribute another name, as in {example}"
            yield (*at, "columns"), text
        yield from (((*at, "on"), text) for text in _misfits_of_key(metric, sources, join, facts, attributes))


def _misfits_of_key(
    metric: MetricContract,
    sources: Mapping[str, SourceContract],
    join: Join,
    facts: Mapping[str, str],
    attributes: Mapping[str, str],
) -> Iterator[str]:
    key = sources[join.dimension].primary_key
    earlier = brought_by(metric.joins, join)
    types = dict(facts)
    if earlier is not None and earlier.dimension in sources:
        of_earlier = {field.name: field.type for field in sources[earlier.dimension].typed_fields}
        types = {name: of_earlier[column] for column, name in earlier.attributes if column in of_earlier}
    unknown = [name for name in join.on if name not in types]
    if unknown:
        yield f"{', '.join(unknown)} is neither a field of {metric.source} nor a column of an earlier join"
        return
    if len(key) != len(join.on):
        yield f"the primary key of {join.dimension} is {', '.join(key)}; name as many columns, in this order"
        return
    yield from (_misfits_of_types(join, key, types, attributes))


def _misfits_of_types(join: Join, key: Sequence[str], types: Mapping[str, str], attributes: Mapping[str, str]) -> Iterator[str]:
    for name, column in zip(join.on, key):
        ours, theirs = types[name], attributes.get(column, "")
        if ours != theirs and not {ours, theirs} <= set(_INTEGERS):
            yield f"{name} is a {ours}, and {column} of {join.dimension} a {theirs}; give both the same type"
        elif ours in _NO_KEYS or (ours.startswith("decimal") and int(ours.rstrip(")").split(",")[1]) > _MOST_SCALE):
            yield f"{name} is a {ours}, on which nothing can be joined exactly; give both a string or an integer"
