"""The contract of a training set: the events that have rows, their features as known then, their label, and the split.

Belongs here as well: whether training sets and models fit the sources, metrics and training sets of the deployment. Their
expressions are compared with their columns in ``fit``.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator

from lakehouse.contracts.base import SYSTEM_COLUMNS, Documented, Name, SparkType, Strict
from lakehouse.contracts.metric_sources import Join  # noqa: TC001 (pydantic reads it)
from lakehouse.contracts.sql_expressions import Aggregate, RowExpression  # noqa: TC001 (pydantic reads them)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.model import ModelContract
    from lakehouse.contracts.source import SourceContract


#: The columns of every training set besides features and label; no feature may have one of these names.
OWN_COLUMNS = ("record_key", "event_ts", "split", "label", "label_known_at")
#: The prefix of event columns that were used in joins: the set keeps these columns, too.
KEY_PREFIX = "key_"

#: The knowledge from which features are computed: that at the event's time, or all that is known when the set is built.
Reading = Literal["as_known", "as_corrected"]


class Entity(Strict):
    """The entity of a row: an event of a source."""

    source: Name = Field(description="The source whose events the rows are about; under 'reprocess_policy: merge'.")
    where: RowExpression | None = Field(
        None, description="A condition in Spark SQL on the columns of the source; default: every event."
    )


class OwnColumn(Strict):
    """A feature computed from the event's own columns."""

    name: Name
    sql: RowExpression = Field(description="An expression in Spark SQL over the columns of the source.")
    type: SparkType


class MetricFeatures(Strict):
    """Published numbers as features: of the newest ended period, as published by the event's time."""

    metric: Name = Field(description="A metric, or a derived one, of this deployment.")
    on: dict[Name, Name] = Field(
        default_factory=dict, description="For each column of the metric's grain the column of the event with its value."
    )
    columns: list[Name | dict[Name, Name]] = Field(
        min_length=1, description="The measures; '{total: country_total}' gives one another name in the set."
    )
    max_age: timedelta | None = Field(
        None,
        gt=timedelta(0),
        description="A number of a period that ended longer before the event is not taken; default: any age.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> MetricFeatures:
        if any(isinstance(entry, dict) and len(entry) != 1 for entry in self.columns):
            msg = "columns: another name is given as '{total: country_total}', one column each"
            raise ValueError(msg)
        return self

    @property
    def measures(self) -> list[tuple[str, str]]:
        """The measures as pairs: the name in the metric, and the name in the set."""
        pairs = (list(entry.items()) if isinstance(entry, dict) else [(entry, entry)] for entry in self.columns)
        return [pair for entry in pairs for pair in entry]


class Features(Strict):
    """The columns that a model learns from."""

    columns: list[Name | OwnColumn] = Field(default_factory=list, description="Of the event: its fields, or expressions.")
    joins: list[Join] = Field(default_factory=list, description="Attributes of dimensions that the event's key has.")
    metrics: list[MetricFeatures] = Field(default_factory=list, description="Published numbers.")
    deprecated: dict[Name, str] = Field(
        default_factory=dict, description="Features that no new set may have, each with what to use in its place."
    )

    @property
    def names(self) -> list[str]:
        """The names of all features, in the order of the set's columns."""
        own = [column if isinstance(column, str) else column.name for column in self.columns]
        joined = [name for join in self.joins for name in join.names]
        return [*own, *joined, *(name for entry in self.metrics for _, name in entry.measures)]


class Label(Strict):
    """The value that a model predicts, computed from records that arrive after the event, sometimes much later."""

    source: Name = Field(description="The source with the labels; under 'reprocess_policy: merge'.")
    on: Name = Field(description="The column of the label source that names the event.")
    key: Name | None = Field(
        None, description="The column of the event with the same value; default: the column of the same name."
    )
    sql: Aggregate = Field(description="An aggregate in Spark SQL over the label records of an event, such as 'max(is_fraud)'.")
    type: SparkType = "int"
    default: int | float | bool | str | None = Field(
        None, description="The label of an event without a record once it is mature; without it such events are left out."
    )
    maturity: timedelta = Field(
        gt=timedelta(0), description="How long after the event its label is believed; younger events are left out."
    )

    @property
    def event_key(self) -> str:
        """The column of the event that the label refers to."""
        return self.key or self.on


class TrainingSetContract(Documented):
    """The contract of one training set: one file, no code."""

    training_set: Name
    entity: Entity
    features: Features
    label: Label
    split: dict[Name, date] = Field(
        min_length=1, description="The parts of the set by event day, each with its first day; earlier events are left out."
    )
    until: date | None = Field(None, description="The first event day that is left out; default: every mature event.")
    reading: Reading = Field(
        "as_known",
        description="Features as they were known at the event ('as_known'), or as corrected since ('as_corrected').",
    )

    @property
    def name(self) -> str:
        """The training set's name."""
        return self.training_set

    @property
    def sources(self) -> list[str]:
        """The sources that the set reads directly, without repetition: of its events, its label, and its dimensions."""
        return list(dict.fromkeys([self.entity.source, self.label.source, *(join.dimension for join in self.features.joins)]))

    @property
    def key_columns(self) -> list[str]:
        """The event columns by which label and features are joined, without repetition."""
        on = [*(name for join in self.features.joins for name in join.on)]
        on += [column for entry in self.features.metrics for column in entry.on.values()]
        return list(dict.fromkeys([self.label.event_key, *on]))

    @property
    def first_day(self) -> date:
        """The first event day that has rows."""
        return next(iter(self.split.values()))

    @field_validator("label", mode="before")
    @classmethod
    def _has_maturity(cls, value: Any) -> Any:
        if isinstance(value, dict) and "maturity" not in value:
            msg = (
                "maturity: is missing; say how long after an event its label is believed, such as P60D: an event without a "
                "record yet is not one of which none will come"
            )
            raise ValueError(msg)
        return value

    @model_validator(mode="after")
    def _consistent(self) -> TrainingSetContract:
        unfit = next(self._problems(), None)
        if unfit:
            raise ValueError(unfit)
        return self

    def _problems(self) -> Iterator[str]:
        names = self.features.names
        if not names:
            yield "features: a set without features teaches nothing; name columns, joins or metrics"
        taken = {*OWN_COLUMNS, *(f"{KEY_PREFIX}{column}" for column in self.key_columns)}
        for name in names:
            if names.count(name) > 1 or name in taken:
                yield f"features: the name {name!r} is taken; give the feature another one, as in '{{{name}: other_{name}}}'"
            if name in SYSTEM_COLUMNS:
                yield f"features: {name!r} is a column of the lakehouse and not of the event; leave it out"
        unknown = sorted(set(self.features.deprecated) - set(names))
        if unknown:
            yield f"features.deprecated: no feature is called {', '.join(unknown)}; there are {', '.join(names)}"
        days = list(self.split.values())
        if days != sorted(set(days)):
            yield "split: the parts follow each other; give each a later first day than the one before it"
        if self.until is not None and self.until <= days[-1]:
            yield "until: lies before the last part of 'split' begins, which would be empty"


_Misfit = tuple[tuple[int | str, ...], str]


def training_misfits(
    training_sets: Mapping[str, TrainingSetContract],
    models: Mapping[str, ModelContract],
    sources: Mapping[str, SourceContract],
    metrics: Mapping[str, MetricContract],
) -> Iterator[tuple[str, tuple[int | str, ...], str]]:
    """The mistakes in a deployment's training sets and models: the contract's name, where in its file, and what to do."""
    for name, contract in training_sets.items():
        yield from ((name, where, text) for where, text in misfits_of_set(contract, sources, metrics))
    for name, model in models.items():
        yield from ((name, where, text) for where, text in misfits_of_model(model, training_sets))


def misfits_of_set(
    contract: TrainingSetContract, sources: Mapping[str, SourceContract], metrics: Mapping[str, MetricContract]
) -> Iterator[_Misfit]:
    """The mistakes between a training set and its sources and metrics: where in its file, and what to do."""
    unread = [*_unread(contract, sources)]
    yield from unread
    if unread:
        return
    fields = _fields(sources[contract.entity.source])
    label_fields = _fields(sources[contract.label.source])
    if contract.label.on not in label_fields:
        yield ("label", "on"), f"{contract.label.on} is no field of {contract.label.source}: {', '.join(label_fields)}"
    if contract.label.event_key not in fields:
        text = f"{contract.label.event_key} is no field of {contract.entity.source}: {', '.join(fields)}"
        yield ("label", "key" if contract.label.key else "on"), f"{text}; name the field with the same value with 'key'"
    for position, column in enumerate(contract.features.columns):
        if isinstance(column, str) and column not in fields:
            text = f"{column} is no field of {contract.entity.source}: {', '.join(fields)}"
            yield ("features", "columns", position), f"{text}; or give a name, an expression 'sql' and a type"
    yield from _misfits_of_joins(contract, sources, fields)
    for position, entry in enumerate(contract.features.metrics):
        at_metric: tuple[int | str, ...] = ("features", "metrics", position)
        yield from ((((*at_metric, *where), text)) for where, text in _misfits_of_metric(entry, metrics, fields))


def misfits_of_model(model: ModelContract, sets: Mapping[str, TrainingSetContract]) -> Iterator[_Misfit]:
    """The mistakes between a model and the training sets: where in its file, and what to do."""
    contract = sets.get(model.training_set)
    if contract is None:
        yield ("training_set",), f"no contract has 'training_set: {model.training_set}'"
        return
    for key in ("fit_on", "evaluate_on"):
        part = getattr(model, key)
        if part is not None and part not in contract.split:
            yield (key,), f"{contract.name} has no part {part}; its split has {', '.join(contract.split)}"
    of_canary = model.canary.success if model.canary else []
    for section, rules in ((("acceptance",), model.acceptance), (("canary", "success"), of_canary)):
        for position, rule in enumerate(rules):
            if rule.by is not None and rule.by not in contract.features.names:
                yield (*section, position, "by"), f"{rule.by} is no feature of {contract.name}"


def _unread(contract: TrainingSetContract, sources: Mapping[str, SourceContract]) -> Iterator[_Misfit]:
    """The sources of events and labels that cannot be read."""
    for at, name in ((("entity", "source"), contract.entity.source), (("label", "source"), contract.label.source)):
        source = sources.get(name)
        if source is None:
            yield at, f"no contract has 'dataset: {name}'"
        elif source.is_dimension:
            yield at, f"{name} is a dimension; name a source of events, and join the dimension under 'features.joins'"
        elif source.materialization.reprocess_policy != "merge":
            policy = source.materialization.reprocess_policy
            yield at, f"{name} is under 'reprocess_policy: {policy}'; only under 'merge' a record is corrected by a later one"


def _fields(source: SourceContract) -> dict[str, str]:
    """The fields of a source, with their types."""
    return {field.name: field.type for field in source.typed_fields}


def _misfits_of_joins(
    contract: TrainingSetContract, sources: Mapping[str, SourceContract], fields: Mapping[str, str]
) -> Iterator[_Misfit]:
    for position, join in enumerate(contract.features.joins):
        at = ("features", "joins", position)
        dimension = sources.get(join.dimension)
        if dimension is None or not dimension.is_dimension:
            yield (*at, "dimension"), f"no source with 'kind: dimension' is called {join.dimension}"
            continue
        if len(join.on) != len(dimension.primary_key):
            text = f"{join.dimension} has the primary key {', '.join(dimension.primary_key)}; name as many columns"
            yield (*at, "on"), text
        unknown = [name for name in join.on if name not in fields]
        if unknown:
            yield (*at, "on"), f"{', '.join(unknown)} is no field of {contract.entity.source}: {', '.join(fields)}"
        missing = [column for column, _ in join.attributes if column not in _fields(dimension)]
        if missing:
            yield (*at, "columns"), f"{', '.join(missing)} is no field of {join.dimension}"


def _misfits_of_metric(
    entry: MetricFeatures, metrics: Mapping[str, MetricContract], fields: Mapping[str, str]
) -> Iterator[_Misfit]:
    metric = metrics.get(entry.metric)
    if metric is None:
        yield ("metric",), f"no contract has 'metric: {entry.metric}'"
        return
    grain = [name for name in metric.grain if metric.event_window is None or name not in metric.event_window.columns]
    if metric.event_window is not None and metric.event_window.columns != ["window_start"]:
        yield ("metric",), f"{entry.metric} counts sessions, which have no period that ends before an event; take another metric"
        return
    if sorted(entry.on) != sorted(grain):
        text = f"{entry.metric} has the grain {', '.join(grain) or '(none)'}; name for each of its columns the event's column"
        yield ("on",), text
    unknown = [name for name in entry.on.values() if name not in {*fields, *SYSTEM_COLUMNS}]
    if unknown:
        yield ("on",), f"{', '.join(unknown)} is no field of the event: {', '.join(fields)}"
    known = [measure.name for measure in metric.measures]
    missing = [name for name, _ in entry.measures if name not in known]
    if missing:
        yield ("columns",), f"{', '.join(missing)} is no measure of {entry.metric}: {', '.join(known)}"
