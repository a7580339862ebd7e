"""Whether the joins of a metric fit the sources of the deployment: the dimension, its key, the columns and their types.

One join of a metric with a dimension: the columns to join on, and the columns that the join adds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, field_validator, model_validator

from lakehouse.contracts.base import SYSTEM_COLUMNS, Name, Strict
from lakehouse.contracts.checks import Share  # noqa: TC001 (pydantic reads it)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract


class Join(Strict):
    """A join that adds to each fact the attributes of its key in the dimension at the fact's event time."""

    dimension: Name = Field(description="The source with 'kind: dimension'.")
    on: list[Name] = Field(min_length=1, description="The columns with the dimension's primary key, in its order.")
    columns: list[Name | dict[Name, Name]] = Field(
        min_length=1, description="The attributes; '{tier: customer_tier}' gives one another name in the metric."
    )
    max_unmatched: Share | None = Field(
        None, description="The greatest share of a day's facts without a match; the check 'facts_matched' fails beyond it."
    )

    @field_validator("on", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _consistent(self) -> Join:
        if any(isinstance(entry, dict) and len(entry) != 1 for entry in self.columns):
            msg = "columns: another name is given as '{tier: customer_tier}', one column each"
            raise ValueError(msg)
        for names, what in ((self.on, "on"), ([column for column, _ in self.attributes], "columns")):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                msg = f"{what}: named twice: {', '.join(twice)}"
                raise ValueError(msg)
        return self

    @property
    def attributes(self) -> list[tuple[str, str]]:
        """The attributes as pairs: the dimension's column, and its name in the metric."""
        pairs = (list(entry.items()) if isinstance(entry, dict) else [(entry, entry)] for entry in self.columns)
        return [pair for entry in pairs for pair in entry]

    @property
    def names(self) -> list[str]:
        """The names of the attributes in the metric."""
        return [name for _, name in self.attributes]


def clashes(joins: Sequence[Join], taken: Collection[str]) -> list[str]:
    """The mistakes in a metric's joins that need no source to be seen, each as ``field: what to do``.

    :param taken: names that attributes cannot have.
    """
    brought: dict[str, int] = {}
    clashing = []
    for position, join in enumerate(joins):
        earlier = {brought[name] for name in join.on if name in brought}
        if earlier and (len(earlier) > 1 or not all(name in brought for name in join.on)):
            clashing.append(
                f"joins: {join.dimension}: {', '.join(join.on)} come from different tables; join on columns of the source, or "
                "on columns of one earlier join"
            )
        if earlier and join.max_unmatched is not None:
            clashing.append(
                f"joins: {join.dimension}: max_unmatched: is a share of facts by their own key, and {', '.join(join.on)} comes "
                "from an earlier join; leave the key out"
            )
        for name in join.names:
            if name in taken or name in brought:
                clashing.append(
                    f"joins: {join.dimension}: the name {name!r} is taken; give the column another one, as in '{{{name}: "
                    f"{join.dimension}_{name}}}'"
                )
            brought[name] = position
    return clashing


def brought_by(joins: Sequence[Join], join: Join) -> Join | None:
    """The earlier join that adds the columns on which ``join`` joins; None if they are columns of the source."""
    return next((other for other in joins[: joins.index(join)] if set(join.on) <= set(other.names)), None)


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
