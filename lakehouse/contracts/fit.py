"""Whether the SQL of contracts fits its tables: columns, function arguments, and aggregation.

Spark would report the same mistakes, but only after the rows were written. Checks that need Spark are left to Spark.

Whether training sets and models fit the sources, metrics and training sets of the deployment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lakehouse.contracts.base import SYSTEM_COLUMNS
from lakehouse.contracts.derived import PERIOD_START, ROW_COUNT
from lakehouse.contracts.inputs import OF_A_MESSAGE
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.record_changes import OF_A_CHANGE
from lakehouse.contracts.source import SourceContract
from lakehouse.contracts.sql_expressions import OF_ROWS, OF_TEXTS, wrong_count
from lakehouse.contracts.training_set import OwnColumn, TrainingSetContract
from lakehouse.text import suggestion

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from pydantic import BaseModel

    from lakehouse.contracts.model import ModelContract
    from lakehouse.contracts.sql_syntax import ParsedSql
    from lakehouse.contracts.training_set import MetricFeatures


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


_COMPOSED = "may make a time of now, as 'no' || 'w' does; write the text itself"
_Location = tuple[int | str, ...]
#: Columns of Bronze that Silver does not have.
_OF_BRONZE = ("raw_payload", "malformed_reason")
#: The types of the system columns that are no texts.
_NO_TEXTS = {
    "event_ts": "timestamp",
    "event_date": "date",
    "arrival_ts": "timestamp",
    "arrival_date": "date",
    "line_number": "bigint",
    "source_sequence": "bigint",
    "is_correction": "boolean",
}


class _Place(NamedTuple):
    """The context of an expression.

    :param fields: the columns that a contract names; None if unknown.
    :param others: further columns, filled by the lakehouse.
    :param whose: the origin of the fields in messages, as in "of sales".
    :param groups: the columns by which rows are grouped; None if the expression is computed per row.
    :param structs: names that may precede a dot; the references are checked elsewhere.
    :param kinds: the types of the columns; None if unknown.
    """

    fields: list[str] | None
    others: Collection[str] = ()
    whose: str = ""
    groups: Collection[str] | None = None
    structs: Collection[str] = ()
    kinds: Mapping[str, str] | None = None


def sql_misfits(contract: BaseModel, sources: Mapping[str, SourceContract]) -> Iterator[tuple[_Location, str]]:
    """The mistakes in the expressions of a contract: where in its file, and what is wrong.

    :param sources: the known sources; the columns of expressions over other sources are not checked.
    """
    if isinstance(contract, SourceContract):
        place = _Place(
            _sql_fit_fields(contract), _filled(contract, *_OF_BRONZE), f" of {contract.dataset}", kinds=_kinds(contract)
        )
        for number, rule in enumerate(contract.quality.row_rules):
            yield from _at(("quality", "row_rules", number, "sql"), rule.sql, place)
    elif isinstance(contract, MetricContract):
        place = _derived(contract) if contract.is_derived else _measured(contract, sources)
        for number, measure in enumerate(contract.measures):
            yield from _at(("measures", number, "sql"), measure.sql, place)
        if not (contract.is_derived or contract.sources):
            yield from (((("grain", number)), text) for number, text in _unknown_grain(contract, place))
    elif isinstance(contract, TrainingSetContract):
        yield from _of_training_set(contract, sources)


def _of_training_set(contract: TrainingSetContract, sources: Mapping[str, SourceContract]) -> Iterator[tuple[_Location, str]]:
    events = _of_records(contract.entity.source, sources)
    if contract.entity.where is not None:
        yield from _at(("entity", "where"), contract.entity.where, events)
    for number, column in enumerate(contract.features.columns):
        if isinstance(column, OwnColumn):
            yield from _at(("features", "columns", number, "sql"), column.sql, events)
    labels = _of_records(contract.label.source, sources)._replace(groups=[contract.label.on])
    yield from _at(("label", "sql"), contract.label.sql, labels)


def _of_records(name: str, sources: Mapping[str, SourceContract]) -> _Place:
    source = sources.get(name)
    if source is None:
        return _Place(None)
    return _Place(_sql_fit_fields(source), _filled(source), f" of {name}", kinds=_kinds(source))


def _derived(metric: MetricContract) -> _Place:
    """The context of a derived metric: a row per grain value, with the values of each input."""
    fields = [*metric.derived_from, *metric.grain]
    return _Place(fields, (ROW_COUNT, PERIOD_START), " of the inputs", structs=metric.derived_from)


def _measured(metric: MetricContract, sources: Mapping[str, SourceContract]) -> _Place:
    """The context of measures: the rows of the (first) source with joined attributes, grouped by day and grain."""
    groups = ["event_date", *metric.grain]
    source = sources.get(metric.source)
    if source is None:
        return _Place(None, groups=groups)
    brought = [name for join in metric.joins for name in join.names]
    windows = metric.event_window.columns if metric.event_window else []
    kinds = _kinds(source) | dict.fromkeys(windows, "timestamp")
    for join in metric.joins:
        theirs = _kinds(sources[join.dimension]) if join.dimension in sources else {}
        kinds |= {name.lower(): theirs.get(column.lower(), "") for column, name in join.attributes}
    others = [*_filled(source), *windows]
    return _Place([*_sql_fit_fields(source), *brought], others, f" of {metric.source}", groups, kinds=kinds)


def _kinds(source: SourceContract) -> dict[str, str]:
    """The types of the columns of a source's table, in lower case."""
    of_system = dict.fromkeys(SYSTEM_COLUMNS, "string") | _NO_TEXTS | dict(OF_A_CHANGE) | dict(OF_A_MESSAGE)
    return of_system | {field.name.lower(): field.type for field in source.typed_fields}


def _sql_fit_fields(source: SourceContract) -> list[str]:
    return [field.name for field in source.typed_fields]


def _filled(source: SourceContract, *of_bronze: str) -> list[str]:
    """The columns of a source's table that its contract does not name."""
    names = [name for name in SYSTEM_COLUMNS if name not in _OF_BRONZE or name in of_bronze]
    added = [*(OF_A_CHANGE if source.is_dimension else ()), *(OF_A_MESSAGE if of_bronze and source.source.kafka else ())]
    return [*names, *(name for name, _ in added)]


def _unknown_grain(metric: MetricContract, place: _Place) -> Iterator[tuple[int, str]]:
    for number, name in enumerate(metric.grain):
        if place.fields is not None and name not in {*place.fields, *place.others}:
            yield number, _unknown(name, place)


def _at(location: _Location, text: str, place: _Place) -> Iterator[tuple[_Location, str]]:
    from lakehouse.contracts.sql_syntax import SqlSyntaxError, parse  # noqa: PLC0415 (a contract without SQL needs no parser)

    names = None if place.fields is None else frozenset(name.lower() for name in (*place.fields, *place.others))
    try:
        parsed = parse(text, names)
    except SqlSyntaxError as problem:
        yield location, f"{text!r} is no expression in Spark SQL: {problem}"
        return
    if parsed is not None:
        yield from ((location, f"{text!r}: {problem}") for problem in dict.fromkeys(_problems(parsed, place, names)))


def _composed(parsed: ParsedSql) -> Iterator[str]:
    if parsed.joins_constants:
        yield f"a text that is put together from constants {_COMPOSED}"
    for call in parsed.calls:
        if call.of_constants and call.name in OF_TEXTS:
            yield f"{call.name}() of constants only {_COMPOSED}"


def _without_day(parsed: ParsedSql, place: _Place) -> Iterator[str]:
    for part in parsed.texts_as_times(place.kinds, OF_TEXTS):
        if part[0] in "'\"":
            yield f"{part} has only a time of day, of which Spark makes a time of the day of the computation; write the day, too"
            continue
        yield (
            f"{part} becomes a time without a pattern, and of a text with only a time of day, such as '14:30', Spark makes a "
            f"time of the day of the computation; write to_timestamp({part}, 'yyyy-MM-dd HH:mm:ss') with the pattern of its texts"
        )


def _problems(parsed: ParsedSql, place: _Place, names: frozenset[str] | None) -> Iterator[str]:
    for column in parsed.columns:
        first, *rest = column.parts
        if names is not None and first not in names and not (rest and place.structs):
            yield _unknown(".".join(column.parts), place)
        elif place.groups is not None and not OF_ROWS.intersection(column.within) and first not in place.groups:
            yield f"{first!r} has a value in each row, and a measure has one of all; write sum({first}), or another aggregate"
    if parsed.reads_all_columns:
        yield "'*' stands for every column, so that each field that is added changes the value; name the columns"
    yield from _composed(parsed)
    yield from _without_day(parsed, place)
    for call in parsed.calls:
        is_aggregate = call.name in OF_ROWS
        outer = next((name for name in call.within if name in OF_ROWS), None)
        if call.arguments is not None and (wrong := wrong_count(call.name, call.arguments)):
            yield wrong
        if is_aggregate and place.groups is None:
            yield f"{call.name}() adds up rows, and here the expression is computed of each row by itself"
        elif is_aggregate and outer is not None:
            yield f"{call.name}() within {outer}(): an aggregate cannot be part of another one"
        elif call.is_filtered and not is_aggregate:
            yield f"{call.name}() with FILTER: only an aggregate has one"


def _unknown(name: str, place: _Place) -> str:
    fields = place.fields or []
    near = suggestion(name, [*fields, *place.others])
    return f"no column{place.whose} is called {name!r}{near}; there are {', '.join(fields)}"
