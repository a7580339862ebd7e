"""The sources and the joins of a metric, and whether they fit each other and the contracts of the deployment.

A source maps its columns to those of the metric, and states whether periods wait for it. Several sources must fit in their
columns, types, time zones, and the rows read from each.

A join names the dimension, the columns to join on, and the columns that it adds. It must fit the dimension: its key, the columns
and their types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator

from lakehouse.contracts.base import SYSTEM_COLUMNS, Name, Strict
from lakehouse.contracts.checks import Share  # noqa: TC001 (pydantic reads it)
from lakehouse.contracts.windows import WINDOW_START

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract


class MetricSource(Strict):
    """A source whose rows a metric reads. The first source defines the column names."""

    source: Name = Field(description="The source, as its contract names it.")
    columns: dict[Name, Name] = Field(
        default_factory=dict,
        description="Columns that this source has under another name: the column of the metric, and that of this source.",
    )
    required: bool = Field(True, description="Whether a period becomes final only after this source has passed it.")
    rows: Literal["newest", "all"] | None = Field(
        None, description="Of this source, if it is under 'append': the metric's 'rows', unless it is given here."
    )

    @property
    def silver(self) -> str:
        """The name of the source's silver table that the metric reads."""
        return f"{self.source}_newest" if self.rows == "newest" else self.source

    def column(self, name: str) -> str:
        """The column of this source for the metric's column ``name``."""
        return self.columns.get(name, name)

    def names(self, column: str) -> list[str]:
        """The metric's columns for ``column`` of this source; empty if another column replaces it."""
        own = [] if column in self.columns else [column]
        return [*own, *(name for name, mapped in self.columns.items() if mapped == column)]

    def read_of(self, contract: SourceContract) -> SourceContract:
        """The contract of the source's silver table that the metric reads, given the source's ``contract``."""
        return contract.newest if self.rows == "newest" else contract


def with_first_source(content: Any) -> Any:
    """Set the first of a metric's ``sources`` as its ``source``, which pages and groups show."""
    if not isinstance(content, dict) or content.get("source") or not isinstance(content.get("sources"), list):
        return content
    entries = [entry if isinstance(entry, dict) else {"source": entry} for entry in content["sources"]]
    first = next((entry.get("source") for entry in entries), None)
    return {**content, "sources": entries, **({"source": first} if first else {})}


def problems(sources: Sequence[MetricSource], deduplicate_by: Sequence[str], derived_from: Collection[str]) -> list[str]:
    """The mistakes in a metric's sources that need no other contract to be seen, each as ``field: what to do``."""
    names = [entry.source for entry in sources]
    twice = sorted({name for name in names if names.count(name) > 1})
    again = sorted({name for name in deduplicate_by if deduplicate_by.count(name) > 1})
    mistakes = {
        f"sources: name each source once: {', '.join(twice)}": bool(twice),
        "sources: a metric reads sources or is made of other metrics; keep 'sources' or 'from'": bool(sources and derived_from),
        "sources: at least one has to be required; else a period would become final with nothing in it": (
            bool(sources) and not any(entry.required for entry in sources)
        ),
        f"sources: {names[0] if names else ''} comes first and gives the names of the columns; leave its 'columns' out": (
            bool(sources) and bool(sources[0].columns)
        ),
        "deduplicate_by: removes what several sources have; name them with 'sources:', or leave the key out": (
            bool(deduplicate_by) and len(sources) < 2  # noqa: PLR2004 (several)
        ),
        f"deduplicate_by: name each column once: {', '.join(again)}": bool(again),
    }
    return [text for text, is_wrong in mistakes.items() if is_wrong]


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


#: Types whose values have several texts, or no exact text.
_NO_KEYS = ("double", "timestamp")
_MOST_SCALE = 6


def join_misfits(metric: MetricContract, sources: Mapping[str, SourceContract]) -> Iterator[tuple[tuple[int | str, ...], str]]:
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
