"""Whether training sets and models fit the sources, metrics and training sets of the deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.contracts.base import SYSTEM_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.contracts.training.model import ModelContract
    from lakehouse.contracts.training.training_set import MetricFeatures, TrainingSetContract

_Misfit = tuple[tuple[int | str, ...], str]


def misfits(
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
