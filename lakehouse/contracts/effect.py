"""Contract keys without effect, which are mistakes of the author, and advice on the consequences of keys that are left out.

Some keys have an effect only together with another key. Belongs here: for each such key, the condition for its effect, and the
remedy. A key that contradicts another one is refused where it is declared. Advice has sentences for the author, and is never a
mistake.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from lakehouse.contracts.record_changes import OPERATION, OPERATIONS, RETRACT
from lakehouse.contracts.source import SourceContract
from lakehouse.contracts.source_rules import INTERVAL_CHECKS, TunableWatermark
from lakehouse.text import suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lakehouse.contracts.metric import MetricContract


#: Words in the names of columns that hold times.
_TIME = re.compile(
    r"(?:^|_)(?:ts|at|time|timestamp|date|datetime|epoch|millis|ms|updated|modified|changed)(?:_|$)", re.IGNORECASE
)


def on_source(source: SourceContract) -> Iterator[str]:
    """Advice on a source, each sentence with the key that it is about."""
    for column in source.order.sequence:
        if source.source.envelope is None and column.type != "time" and _TIME.search(column.column):
            yield (
                f"order.sequence: {column.column} may hold times: a record that a sender's clock puts into the future then "
                f"counts until that time. '{{column: {column.column}, type: time}}' compares it with its delivery "
                "(clocks.max_ahead); 'source.formats' reads times that are numbers"
            )


def on_metric(
    metric: MetricContract, sources: Mapping[str, SourceContract], metrics: Mapping[str, MetricContract] | None = None
) -> Iterator[str]:
    """Advice on a metric, each sentence with the key that it is about.

    :param sources: the known sources; there is no advice on others.
    :param metrics: the known metrics, from which this one may be derived.
    """
    terms = metric.publication
    read = [sources[entry.source] for entry in metric.read if entry.source in sources]
    without = [source.dataset for source in read if source.clocks.watermark is None]
    if without:
        yield (
            f"publication: a number is final {terms.final_after} days after its period by the calendar, whether or not "
            f"everything has arrived, because {' and '.join(without)} has no clocks.watermark"
        )
    if not metric.is_derived and terms.after_close == "restate":
        exact = all(measure.is_exact for measure in metric.measures)
        booked, unfit = "'adjust' books the change in the open day", "'adjust' needs measures that are decimals or integers"
        instead = booked if exact else unfit
        yield f"publication.after_close: a final number changes with its rows ('restate', the default); {instead}"
    yield from _on_zones(metric, sources, read)
    yield from _on_inputs(metric, sources, metrics or {})
    doubles = {field.name for source in read for field in source.typed_fields if field.type == "double"}
    for number, measure in enumerate(metric.measures):
        summed = {name for name in doubles if re.search(rf"\bsum\s*\(\s*{re.escape(name)}\b", measure.sql, re.IGNORECASE)}
        for name in sorted(summed):
            why = "a double holds 16 digits, and has no adjustments"
            yield f"measures[{number}].sql: {name} is a double; use decimals for money: {why}"


def _on_zones(metric: MetricContract, sources: Mapping[str, SourceContract], read: Sequence[SourceContract]) -> Iterator[str]:
    """Advice on joins between days that begin at different times."""
    for number, join in enumerate(metric.joins):
        dimension = sources.get(join.dimension)
        zones = {source.clocks.timezone for source in read}
        if dimension is None or not zones or zones == {dimension.clocks.timezone}:
            continue
        if any(source.event_may_be_day for source in (dimension, *read)):
            theirs, facts, ours = dimension.clocks.timezone, " and ".join(source.dataset for source in read), min(zones)
            yield (
                f"joins[{number}]: a day of {join.dimension} begins at midnight in {theirs}, a day of {facts} at midnight in "
                f"{ours}. They are joined by instants: an event on the day of a change may get the attributes from before it. "
                f"A fact with only a day is joined by the day of {theirs}. Set the same 'clocks.timezone' if both mean the same "
                "days"
            )


def _on_inputs(
    metric: MetricContract, sources: Mapping[str, SourceContract], metrics: Mapping[str, MetricContract]
) -> Iterator[str]:
    """Advice on a metric that is derived from days that begin at different times."""
    zones = {name: _zones(name, sources, metrics) for name in metric.derived_from}
    if len({zone for each in zones.values() for zone in each}) > 1 and len({*map(tuple, zones.values())} - {()}) > 1:
        days = [f"a day of {name} begins at midnight in {' and '.join(each)}" for name, each in zones.items() if each]
        shown = ", ".join([days[0], *(text.replace(" begins", "", 1) for text in days[1:])])
        yield (
            f"from: {shown}, so that numbers of one date cover different hours; set the same 'clocks.timezone' if both mean the "
            "same days"
        )


def _zones(name: str, sources: Mapping[str, SourceContract], metrics: Mapping[str, MetricContract]) -> list[str]:
    """The zones of the sources of a metric and of the metrics from which it is derived, as far as they are known."""
    seen, names, zones = set[str](), [name], list[str]()
    while names:
        metric = metrics.get(names.pop(0))
        if metric is not None and metric.name not in seen:
            seen.add(metric.name)
            names += metric.derived_from
            zones += [sources[entry.source].clocks.timezone for entry in metric.read if entry.source in sources]
    return list(dict.fromkeys(zones))


_FISCAL = {"fiscal_quarter", "fiscal_year"}


class Requirement(NamedTuple):
    """The condition under which a key has an effect.

    :param key: its path in the file.
    :param is_met: whether the key has an effect in a contract.
    :param text: the purpose of the key, and what to do.
    """

    key: str
    is_met: Callable[[Any], bool]
    text: str


def _has_bound(source: SourceContract) -> bool:
    """Whether a row may lie beyond a cutoff of ``lateness``."""
    own = [source.lateness, *(source.lateness.by.values.values() if source.lateness.by else ())]
    return any(bounds.watermark is not None or bounds.changes for bounds in own)


def _has_rollup(name: str, metric: MetricContract) -> bool:
    return name in metric.publication.rollups


_ONLY_CSV = "only CSV has it; leave the key out, or set 'source.format: csv'"
_WORDS = "are words of the column 'changes.op', which is not named; name it, or leave the key out"
_BEYOND = "is the share of rows beyond 'lateness.cutoff', which is not set; set it, or leave the key out"
OF_SOURCE = (
    *(
        Requirement(f"source.{name}", lambda it: it.source.format == "csv", _ONLY_CSV)
        for name in ("delimiter", "quote", "columns", "skip_lines", "comment")
    ),
    Requirement(
        "source.array",
        lambda it: it.source.format == "json" and it.source.kafka is None,
        "only files of JSON are arrays; leave the key out, or set 'source.format: json'",
    ),
    *(
        Requirement(f"changes.{name}", lambda it: bool(it.changes.op or it.source.envelope), _WORDS)
        for name in ("insert_words", "correct_words", "delete_words")
    ),
    Requirement("lateness.alert_above", _has_bound, _BEYOND),
    Requirement("alerts.late_share", lambda it: it.alerts.late_share is None or _has_bound(it), _BEYOND),
    Requirement(
        "alerts.unfinished_after",
        lambda it: it.source.complete_when is not None,
        "is about days that 'source.complete_when' marks as complete, which is not set; set it, or leave the key out",
    ),
    Requirement(
        "alerts.watermark_stalled",
        lambda it: it.alerts.watermark_stalled is None or it.clocks.watermark is not None,
        "is about 'clocks.watermark', which is not set; set it, or leave the key out",
    ),
    Requirement(
        "materialization.max_shrink",
        lambda it: it.materialization.reprocess_policy.startswith("overwrite"),
        "is the share that a re-sent delivery may lack, and under this 'reprocess_policy' no delivery replaces another; leave "
        "the key out",
    ),
    Requirement(
        "materialization.repeated_content",
        lambda it: it.source.kafka is None,
        "is about files, and messages of a topic are known by their offsets; leave the key out",
    ),
    Requirement(
        "materialization.delivery",
        lambda it: it.source.kafka is None,
        "is about files, and messages of a topic are known by their offsets; leave the key out",
    ),
    Requirement(
        "materialization.delivery",
        lambda it: (
            it.materialization.delivery != "manifest" or bool(it.source.complete_when and it.source.complete_when.manifest)
        ),
        "is 'manifest', and 'source.complete_when.manifest' names none; name it there, or leave the key out",
    ),
    Requirement(
        "quality.severity.one_correction",
        lambda it: it.changes.corrects_event_id is not None,
        "is about 'changes.corrects_event_id', which is not set; set it, or leave the key out",
    ),
    Requirement(
        "quality.severity.whole_correction",
        lambda it: it.changes.corrected_field is not None,
        "is about 'changes.corrected_field', which is not set; set it, or leave the key out",
    ),
    Requirement(
        "quality.severity.whole_correction",
        lambda it: not it.has_partial_corrections,
        "is about corrections that replace the whole record, and 'changes.corrections' is 'partial'; leave the key out",
    ),
    *(
        Requirement(
            f"quality.severity.{name}",
            lambda it: it.is_dimension,
            "only a dimension has this check; leave the key out, or set 'kind: dimension'",
        )
        for name in INTERVAL_CHECKS
    ),
)
OF_METRIC = (
    Requirement(
        "publication.fiscal_year_starts",
        lambda it: bool(_FISCAL & {*it.publication.rollups}),
        "is for roll-ups by fiscal_quarter or fiscal_year, and 'publication.rollups' has neither; name one, or leave the key out",
    ),
    Requirement(
        "publication.patch_up_to",
        lambda it: not it.publication.patch_up_to or it.is_derived or (it.adds_up_row_by_row and it.late_events is None),
        "needs measures that are additive and integers or decimals, and a day that is computed from its own rows of one source, "
        "without joins and 'late_events'; leave the key out",
    ),
    Requirement(
        "publication.final_needs.final_days",
        lambda it: bool(it.publication.rollups),
        "is for longer periods, and 'publication.rollups' names none; name one, or leave the key out",
    ),
    Requirement(
        "publication.closes_with",
        lambda it: not it.publication.closes_with or it.publication.final_needs.watermark,
        "is about the watermark, which 'publication.final_needs.watermark: false' takes no notice of; leave one of the two out",
    ),
    *(
        Requirement(
            f"publication.closes_with.{name}",
            partial(_has_rollup, name),
            f"closes a {name.replace('_', ' ')}, and 'publication.rollups' does not name it; name it there, or leave the key out",
        )
        for name in ("week", "month", "quarter", "fiscal_quarter", "fiscal_year")
    ),
    Requirement(
        "alerts.late_dropped",
        lambda it: it.alerts.late_dropped is None or it.late_events is not None,
        "is about rows that come too late for 'late_events', which is not set; set it, or leave the key out",
    ),
    Requirement(
        "alerts.live_tolerance",
        lambda it: bool(it.alerts.values),
        "is for bounds under 'alerts.values', and there are none; give one, or leave the key out",
    ),
)


def without_effect(
    contract: SourceContract | MetricContract, content: Mapping[str, Any]
) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """The keys of a contract's file that have no effect: the location of each, and what to do.

    :param content: the content of the file, because a contract loaded from storage has all keys.
    """
    for need in OF_METRIC if "metric" in content else OF_SOURCE:
        where = need.key.split(".")
        if _is_given(content, where) and not need.is_met(contract):
            yield (*where,), need.text
    if isinstance(contract, SourceContract):
        yield from _unknown_names(contract)


def _unknown_names(source: SourceContract) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """Names of operations that no record has, and tiers with the same name: where in the file, and what to do."""
    by, marker, watermark = source.lateness.by, source.marker, source.clocks.watermark
    named: list[tuple[tuple[int | str, ...], str]] = []
    if by and by.column == OPERATION:
        named += [(("lateness", "by", "values", word), word) for word in by.values]
    if marker and marker.column == OPERATION:
        named.append((("clocks", "watermark", "marker", "value"), marker.value))
    if isinstance(watermark, TunableWatermark) and source.event_type_column == OPERATION:
        at = ("clocks", "watermark", "tuning", "event_types")
        named += [((*at, place), word) for place, word in enumerate(watermark.tuning.event_types)]
    known = [*OPERATIONS, *([RETRACT] if source.is_dimension else [])]
    for where, word in named:
        if word not in known:
            yield where, f"no operation is called {word!r}{suggestion(word, known)}; there are {', '.join(known)}"
    serves = [tier.serves for tier in source.lateness.tiers]
    for place, name in enumerate(serves):
        if name in serves[:place]:
            text = f"two tiers serve {name!r}, so that a close would not know its own; give each another name"
            yield ("lateness", "tiers", place, "serves"), text


def _is_given(content: Any, where: Sequence[str]) -> bool:
    for name in where:
        if not isinstance(content, dict) or name not in content:
            return False
        content = content[name]
    return True


def of_tiers(metric: MetricContract, sources: Mapping[str, SourceContract]) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """The names in ``publication.closes_with`` that no source of the metric has: where in the file, and what to do."""
    for kind, serves in metric.publication.closes_with.items():
        # A period does not wait for a source that is not required.
        for name in dict.fromkeys(entry.source for entry in metric.read if entry.required and entry.source in sources):
            source, where = sources[name], ("publication", "closes_with", kind)
            known = [tier.serves for tier in source.lateness.tiers]
            if serves not in known:
                names = f"there are {', '.join(known)}" if known else "it has no tiers"
                yield where, f"no tier of the lateness of {name} serves {serves!r}{suggestion(serves, known)}; {names}"
            elif source.clocks.watermark is None:
                yield (
                    where,
                    f"{name} has no watermark that could pass a period by a tier; give its contract 'clocks.watermark'",
                )
