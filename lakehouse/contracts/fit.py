"""Whether the SQL of contracts fits its tables, and whether a measure that is said to add up does.

Columns, function arguments and aggregation are checked here. Spark would report the same mistakes, but only after the rows were
written. Checks that need Spark are left to Spark. A measure that adds up is also checked for a type that cuts its values.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlglot import expressions as sql

from lakehouse.contracts.base import SYSTEM_COLUMNS
from lakehouse.contracts.derived import PERIOD_START, ROW_COUNT
from lakehouse.contracts.inputs import OF_A_MESSAGE
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.record_changes import OF_A_CHANGE
from lakehouse.contracts.source import SourceContract
from lakehouse.contracts.sql_expressions import OF_ROWS, OF_TEXTS, wrong_count
from lakehouse.contracts.training_set import OwnColumn, TrainingSetContract
from lakehouse.contracts.windows import WINDOW_START
from lakehouse.text import suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from pydantic import BaseModel

    from lakehouse.contracts.sql_syntax import ParsedSql


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


def sql_misfits(
    contract: BaseModel, sources: Mapping[str, SourceContract], metrics: Mapping[str, MetricContract] | None = None
) -> Iterator[tuple[_Location, str]]:
    """The mistakes in the expressions of a contract: where in its file, and what is wrong.

    :param sources: the known sources; the columns of expressions over other sources are not checked.
    :param metrics: the known metrics, from which a contract may be derived.
    """
    if isinstance(contract, SourceContract):
        place = _Place(
            _sql_fit_fields(contract), _filled(contract, *_OF_BRONZE), f" of {contract.dataset}", kinds=_kinds(contract)
        )
        for number, rule in enumerate(contract.quality.row_rules):
            yield from _at(("quality", "row_rules", number, "sql"), rule.sql, place)
    elif isinstance(contract, MetricContract):
        place = _derived(contract, metrics or {}) if contract.is_derived else _measured(contract, sources)
        for number, measure in enumerate(contract.measures):
            yield from _at(("measures", number, "sql"), measure.sql, place)
        yield from _sums(contract, metrics or {})
        yield from _of_periods(contract)
        if not (contract.is_derived or contract.sources):
            known = None if place.fields is None else {*place.fields, *place.others}
            unknown = ((number, name) for number, name in enumerate(contract.grain) if known is not None and name not in known)
            yield from ((("grain", number), _unknown(name, place)) for number, name in unknown)
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


def _derived(metric: MetricContract, metrics: Mapping[str, MetricContract]) -> _Place:
    """The context of a derived metric: a row per grain value, with the values of each input."""
    fields, others = [*metric.derived_from, *metric.grain], (ROW_COUNT, PERIOD_START)
    kinds = dict.fromkeys((*fields, *others), "") | _kinds_of_inputs(metric, metrics)
    return _Place(fields, others, " of the inputs", structs=metric.derived_from, kinds=kinds)


def _kinds_of_inputs(metric: MetricContract, metrics: Mapping[str, MetricContract]) -> dict[str, str]:
    """The types of the measures of a derived metric's inputs, by ``input.measure``."""
    inputs = [metrics[name] for name in metric.derived_from if name in metrics]
    return {f"{each.name}.{measure.name}": measure.type for each in inputs for measure in each.measures}


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


def advice(
    metric: MetricContract,
    sources: Mapping[str, SourceContract] | None = None,
    metrics: Mapping[str, MetricContract] | None = None,
) -> Iterator[str]:
    """Advice on the expressions of a metric, each sentence with the key that it is about.

    :param sources: the known sources; the types of other columns are unknown.
    :param metrics: the known metrics, from which this one may be derived.
    """
    kinds = {**(_measured(metric, sources or {}).kinds or {}), **_kinds_of_inputs(metric, metrics or {})}
    for number, measure in enumerate(metric.measures):
        if measure.type in _INTEGERS and (parsed := _parsed(measure.sql)) and _has_fraction(parsed.tree, kinds):
            yield (
                f"measures[{number}].type: {measure.type} cuts the places after the point of {measure.sql!r}: 10.75 becomes 10; "
                "write round(...), or give a decimal type"
            )
    for number, text in _believed(metric):
        if _not_additive(text, None) == "":
            yield (
                f"measures[{number}].additive: whether {text!r} adds up cannot be seen: the values of the parts of a period must "
                "add up to that of the period, as sums and counts do; else leave 'additive' out"
            )


_INTEGERS = ("int", "bigint")
#: Literals of numbers; one with a suffix (0BD) is parsed as the cast of a text.
_ZERO, _WHOLE = re.compile(r"(?:0+\.?0*|\.0+)(?:[eE]\d+)?"), re.compile(r"\d+\.?0*")
_WITH_FRACTION = re.compile(r"double|float|decimal\(\d+, ?[1-9]\d*\)", re.IGNORECASE)
#: Functions whose value is one of their arguments, or is added up from them.
_NAMES_OF_PASSING = """
abs coalesce greatest ifnull least max median min mod nanvl negative nullif nullifzero nvl percentile_disc pmod positive sum
try_add try_mod try_multiply try_subtract try_sum zeroifnull
"""
_OF_ARGUMENTS = frozenset(_NAMES_OF_PASSING.split())
#: Functions whose value has places after the point, whatever their arguments are.
_NAMES_OF_FRACTIONS = """
avg corr double exp float ln log log10 mean percentile percentile_cont pow power sqrt std stddev stddev_pop stddev_samp try_avg
try_divide var_pop var_samp variance
"""
_FRACTIONS = frozenset(_NAMES_OF_FRACTIONS.split())
_OPERATIONS = (sql.Paren, sql.Neg, sql.Filter, sql.Distinct, sql.Add, sql.Sub, sql.Mul, sql.Mod)


def _has_fraction(node: sql.Expr, kinds: Mapping[str, str]) -> bool:
    """Whether the value of a part has places after the point, as far as can be seen.

    :param kinds: the types of the columns.
    """
    of = partial(_has_fraction, kinds=kinds)
    name = node.name.lower() if isinstance(node, sql.Anonymous) else ""
    if isinstance(node, (sql.Column, sql.Cast)) and not isinstance(node.this, sql.Literal):
        kind = node.to.sql() if isinstance(node, sql.Cast) else kinds.get(_column(node), "")
        return bool(_WITH_FRACTION.fullmatch(kind))
    if isinstance(node, sql.Literal):
        return not _WHOLE.fullmatch(node.name)
    if name in {"round", "bround"}:
        return len(node.expressions) > 1 and node.expressions[1].name != "0" and of(node.expressions[0])
    if isinstance(node, (sql.Case, sql.If)):
        return any(of(part) for part in node.iter_expressions() if part is not node.this)
    passes = isinstance(node, (*_OPERATIONS, sql.Cast)) or name in _OF_ARGUMENTS
    return isinstance(node, sql.Div) or name in _FRACTIONS or (passes and any(map(of, node.iter_expressions())))


def _column(node: sql.Column) -> str:
    return ".".join(part.name.lower() for part in node.parts)


def _parsed(text: str) -> ParsedSql | None:
    from lakehouse.contracts.sql_syntax import SqlSyntaxError, parse  # noqa: PLC0415 (a contract without SQL needs no parser)

    try:
        return parse(text)
    except SqlSyntaxError:
        return None


def _believed(metric: MetricContract) -> Iterator[tuple[int, str]]:
    """The expressions that are said to add up. Those of sessions do, because no row is in two of them and a session is whole."""
    has_sessions = metric.event_window is not None and metric.event_window.columns != [WINDOW_START]
    if not (has_sessions or metric.windows_overlap):
        yield from ((number, measure.sql) for number, measure in enumerate(metric.measures) if measure.additive)


def _sums(metric: MetricContract, metrics: Mapping[str, MetricContract]) -> Iterator[tuple[_Location, str]]:
    """The measures that are said to add up, and do not: where in the file, and what to do."""
    inputs = [metrics[name] for name in metric.derived_from if name in metrics]
    columns = {f"{each.name}.{name}" for each in inputs for name in (*each.additive, ROW_COUNT)}
    for number, text in _believed(metric):
        if part := _not_additive(text, columns if len(inputs) == len(metric.derived_from) else None):
            why = "the value of a week would be the sum of its days' values, which is another number"
            what = "leave 'additive' out, and a week is computed by itself; or write sums and counts"
            yield ("measures", number, "additive"), f"{part} does not add up: {why}; {what}"


def _of_periods(metric: MetricContract) -> Iterator[tuple[_Location, str]]:
    """The measures that are computed from the rows of a longer period, and read the start of a window."""
    if metric.event_window is None or not metric.publication.rollups:
        return
    for number, measure in enumerate(metric.measures):
        parsed = None if measure.additive else _parsed(measure.sql)
        if parsed and any(column.parts[0] == WINDOW_START for column in parsed.columns):
            period = metric.publication.rollups[0].replace("_", " ")
            text = (
                f"a {period} is computed from its rows, which have no {WINDOW_START!r}; make the measure additive if it adds up, "
            )
            yield ("measures", number, "sql"), f"{text}or give the roll-ups to another metric"


_SUMMED = frozenset({"count", "count_if", "regr_count", "sum", "try_sum"})
_OPERATORS: dict[Any, str] = {sql.Add: "+", sql.Sub: "+", sql.Mul: "*", sql.Div: "/"}
_OPERATORS |= {"try_add": "+", "try_subtract": "+", "try_multiply": "*", "try_divide": "/"}
#: Functions that yield their first argument, or a number that is equal to it, and another one only in place of NULL or 0.
_NUMBERS = "bigint coalesce decimal double float ifnull int nanvl negative nullif nullifzero nvl positive smallint tinyint"
_PASSING = frozenset(f"{_NUMBERS} zeroifnull".split())


def _not_additive(text: str, additive: Collection[str] | None) -> str | None:
    """The part of a measure whose values over disjoint sets of rows do not add up to the value over all of them; an empty text if
    this cannot be known; None if the measure is a sum or a count, or a linear combination of them.

    :param additive: the columns of inputs, as ``input.column``, that add up; None if they are unknown.
    """
    parsed = _parsed(text)
    if parsed is None:
        return ""
    kind = _sum_of(parsed.tree, additive)
    part = kind if isinstance(kind, sql.Expr) else parsed.tree if kind == "constant" else None
    return parsed.text_of(part) if part is not None else "" if kind is None else None


def _sum_of(node: sql.Expr, additive: Collection[str] | None) -> sql.Expr | str | None:  # noqa: PLR0911 (one per form)
    """What becomes of a part's values over disjoint sets of rows: ``sum`` if they add up, ``constant`` if all are the same,
    ``zero``; the part itself if they do not add up; None if this cannot be known.
    """
    of = partial(_sum_of, additive=additive)
    if isinstance(node, (sql.Paren, sql.Neg, sql.Filter, sql.WithinGroup, sql.Cast)):
        return of(node.this)
    if isinstance(node, sql.Null) or (isinstance(node, sql.Literal) and _ZERO.fullmatch(node.name)):
        return "zero"
    if isinstance(node, sql.Column) and len(node.parts) > 1:
        return "sum" if additive is None or _column(node) in additive else node
    if isinstance(node, (sql.Case, sql.If)):
        return _of_branches(node, of)
    name = node.name.lower() if isinstance(node, sql.Anonymous) else ""
    operands = list(node.expressions) if name else [node.this, node.args.get("expression")]
    operator = _OPERATORS.get(name or type(node))
    if operator is not None and len(operands) == 2:  # noqa: PLR2004 (else it is a mistake of another kind)
        return _of_operator(node, operator, *map(of, operands))
    if name in _SUMMED and not any(isinstance(each, sql.Distinct) for each in operands):
        return "sum"
    if name in OF_ROWS:
        return node
    kinds = [of(each) for each in node.iter_expressions()]
    if name in _PASSING and kinds and kinds[0] != "constant":
        other = node if "constant" in kinds[1:] and kinds[0] == "sum" else None
        return kinds[0] if {*kinds[1:]} <= {"zero"} else other
    return "constant" if {*kinds} <= {"constant", "zero"} else None


def _of_branches(node: sql.Expr, of: Callable[[sql.Expr], sql.Expr | str | None]) -> sql.Expr | str | None:
    """Of an IF or a CASE: the branches have one kind, and the conditions are the same for all rows."""
    branches = node.args.get("ifs") or [node]
    conditions = [node.this, *(branch.this for branch in branches)]
    results = [*(branch.args["true"] for branch in branches), node.args.get("default"), node.args.get("false")]
    kinds = {of(each) for each in results if each is not None}
    if not {of(each) for each in conditions if each is not None} <= {"constant", "zero"}:
        return None
    return next((kind for kind in ("sum", "constant", "zero") if kinds <= {kind, "zero"}), None)


def _of_operator(
    node: sql.Expr, operator: str, left: sql.Expr | str | None, right: sql.Expr | str | None
) -> sql.Expr | str | None:
    kinds = {left, right}
    if kinds <= {"constant", "zero"}:
        return "constant" if "constant" in kinds else "zero"
    unfit = next((kind for kind in (left, right) if isinstance(kind, sql.Expr)), None)
    if None in kinds or (unfit is not None and operator == "*"):  # avg(x) * count(x) is a sum
        return None
    if unfit is not None:
        return node if operator == "/" and "sum" in kinds else unfit
    if operator == "+":
        return node if "constant" in kinds else "sum"
    if operator == "*":
        return node if kinds == {"sum"} else "sum"
    return "sum" if right == "constant" else node
