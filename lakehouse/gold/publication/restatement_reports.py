"""``ops/restatement_reports``: the changes of each publication that restated numbers: every period before and after, and why.

A report is derived from the revisions in gold and the publication's lineage, and is written after the commit: :func:`follow`
writes missing reports. It names its measures and grain, so that it can be read regardless of later contracts. Showing it belongs
to ``serving``.

The changes of dimensions that restated a day have one wording, which commands, API and pages use. The changes are those that the
publication recorded; which facts they concern is decided in ``dimensions.changed_facts``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import days_reached, source_days
from lakehouse.delta import row_writer
from lakehouse.dimensions.tables import dimension_keys
from lakehouse.gold.numbers import history, window_history
from lakehouse.gold.numbers.comparison import Sides, added
from lakehouse.gold.numbers.lifecycle import REASONS_BY_PRECEDENCE, RevisionReason, parse_version_name
from lakehouse.lake import table_io
from lakehouse.ledger import publications, redactions
from lakehouse.ledger.log_table import LogTable
from lakehouse.text import format_moment

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.lake import Lake
    from lakehouse.ledger.publications import Publication

#: The number of listed periods, those with the greatest changes; of rows of the grain of each; and of entries of a cause.
PERIODS, ROWS, CAUSES = 50, 10, 20
_AT_ONCE, _MASKED_AT_ONCE = 31, 100
#: Part of a publication's trigger that has no bound, and names what ``files`` does.
_LEFT_OUT = {"ingestions"}
_KEYS = ("series", "publication_id")


@dataclass(frozen=True)
class RestatementReport:
    """The changes of one publication.

    ``totals`` has per additive measure the sum over all restated periods before and after; ``periods`` has, by name, those with
    the greatest changes: their revisions, their totals, the reason, and the rows of the grain with the greatest changes;
    ``period_count`` counts all. ``reasons`` counts the periods per reason; ``causes`` is the publication's trigger, shortened.
    """

    series: str
    publication_id: str
    gold_version: int
    run_id: str
    published_at: datetime
    reason: RevisionReason
    reasons: Mapping[str, int]
    grain: list[str]
    measures: list[str]
    period_count: int
    totals: Mapping[str, Any]
    periods: Mapping[str, Any]
    causes: Mapping[str, Any] = field(default_factory=dict)
    by: str | None = None
    signed_off_by: str | None = None
    sign_off_reason: str | None = None


def log(lake: Lake) -> LogTable[RestatementReport]:
    """The table."""
    return LogTable(RestatementReport, lake, locations.restatement_reports(lake), partition_by="series", sort_keys=False)


def find(lake: Lake, series: Collection[str], publication_id: str) -> RestatementReport | None:
    """The report of a publication of one of ``series``; None if it restated nothing, or its report has not been written yet."""
    reports = log(lake).read({"series": series, "publication_id": [publication_id]})
    return reports[0] if reports else None


def reported(lake: Lake, series: Collection[str]) -> set[str]:
    """The ids of the publications of ``series`` that have a report."""
    return set(log(lake).select(["publication_id"], {"series": series})["publication_id"].to_pylist())


def sides_of(values: Mapping[str, Any]) -> Sides:
    """A number before and after, as it is stored in a report; decimals are stored as text."""
    before, after = (Decimal(value) if isinstance(value, str) else value for value in (values["before"], values["after"]))
    return Sides(before, after)


def follow(lake: Lake, series: Series) -> None:
    """Copy the publications of a series into the ledger, and write a report of each publication that has none and restated a
    number.
    """
    publications.follow(lake, series.name, locations.gold(lake, series))
    reports, app_id = log(lake), f"restatement_reports:{series.name}"
    done = reports.table.transaction(app_id) or 0
    unmarked = done
    for publication in publications.after(lake, series.name, done):
        if not _may_restate(publication):
            continue
        report = of_publication(lake, series, publication)
        unmarked = publication.gold_version
        if report is not None:
            reports.append([report], app_id=app_id, app_version=unmarked)
            done = unmarked
    if unmarked > done:  # these publications are not looked at again
        reports.append([], app_id=app_id, app_version=unmarked)


def of_publication(lake: Lake, series: Series, publication: Publication) -> RestatementReport | None:
    """The report of a publication, from the revisions in gold; None if it restated nothing.

    Only its periods are read, in groups.
    """
    reasons, totals, listed, measures = Counter[str](), dict[str, Sides](), list[tuple[Any, str, Any]](), dict[str, None]()
    for before, after, known in _restated(lake, series, publication):
        reasons[after.reason.value] += 1
        moved = history.moved(series, known)[known.index(after)]
        measures |= dict.fromkeys(moved)
        for name in moved.keys() & set(series.metric.additive):
            total = totals.get(name, Sides(None, None))
            totals[name] = Sides(added([total.before, moved[name].before]), added([total.after, moved[name].after]))
        size = tuple(-sides.size for sides in moved.values())
        listed.append((size, after.period, _period(series, before, after, known, moved)))
        if len(listed) >= 2 * PERIODS:
            listed = _greatest(listed)
    if not reasons:
        return None
    return RestatementReport(
        series=series.name,
        publication_id=publication.publication_id,
        gold_version=publication.gold_version,
        run_id=publication.run_id,
        published_at=publication.recorded_at,
        reason=next(reason for reason in (*REASONS_BY_PRECEDENCE, *RevisionReason) if reason.value in reasons),
        reasons=reasons,
        grain=series.grain,
        measures=[measure.name for measure in series.metric.measures if measure.name in measures],
        period_count=reasons.total(),
        totals={name: sides.as_json() for name, sides in totals.items()},
        periods={period: entry for _, period, entry in _greatest(listed)},
        causes=_shortened(publication.trigger),
        by=publication.by,
        signed_off_by=publication.signed_off_by,
        sign_off_reason=publication.sign_off_reason,
    )


def mask(lake: Lake, series: Series, starts: Collection[date], hidden: Callable[[date], Mapping[str, Collection[Any]]]) -> int:
    """Set values of the grain to NULL in the reports of a series; repeating it changes nothing.

    :param starts: the first days of the periods concerned.
    :param hidden: the values to hide in a period, by column of the grain.
    :returns: the number of reports changed.
    """
    names = {series.period(start).name: start for start in starts}
    reports, ids, changed = log(lake), sorted(reported(lake, [series.name])), 0
    for place in range(0, len(ids), _MASKED_AT_ONCE):
        some = reports.read({"series": [series.name], "publication_id": ids[place : place + _MASKED_AT_ONCE]})
        masked = [replace(report, periods=_masked(report.periods, names, hidden)) for report in some]
        rows = [reports.to_row(after) for before, after in zip(some, masked) if before != after]
        table = pa.Table.from_pylist(rows, schema=reports.schema)
        row_writer.upsert(reports.table, table, _KEYS, partition_by="series")
        changed += len(rows)
    return changed


def _masked(
    periods: Mapping[str, Any], names: Mapping[str, date], hidden: Callable[[date], Mapping[str, Collection[Any]]]
) -> dict[str, Any]:
    masked = dict(periods)
    for period in periods.keys() & names.keys():
        texts = {name: {f"{value}" for value in values} for name, values in hidden(names[period]).items()}
        rows = [
            row | {"grain": {name: None if value in texts.get(name, ()) else value for name, value in row["grain"].items()}}
            for row in periods[period]["rows"]
        ]
        masked[period] = {**periods[period], "rows": rows}
    return masked


def _may_restate(publication: Publication) -> bool:
    """Whether a publication has more than first numbers, by the names of its versions."""
    names = map(parse_version_name, publication.published.values())
    return any(name is None or name.revision > 1 or name.adjustment is not None for name in names)


def _restated(
    lake: Lake, series: Series, publication: Publication
) -> Iterator[tuple[PublishedVersion, PublishedVersion, list[PublishedVersion]]]:
    """The versions that restate a number: the previous one, the published one, and all versions of both revisions."""
    starts = sorted(map(date.fromisoformat, publication.published))
    names = set(publication.published.values())
    for place in range(0, len(starts), _AT_ONCE):
        rows = locations.gold(lake, series).read(None, {series.by: starts[place : place + _AT_ONCE]})
        for of_period in table_io.split(rows, series.by).values() if rows is not None and len(rows) else ():
            numbers = pc.unique(of_period.filter(pc.is_in(of_period["version_name"], pa.array(sorted(names))))["revision"])
            both = pa.array(
                sorted({number - back for number in numbers.to_pylist() for back in (0, 1)}), of_period["revision"].type
            )
            for known in history.versions_in(series, of_period.filter(pc.is_in(of_period["revision"], both))).values():
                for before, after in pairwise(known):
                    if after.name in names and (after.adjustment is not None or after.restates):
                        yield before, after, known


def _period(
    series: Series,
    before: PublishedVersion,
    after: PublishedVersion,
    known: Sequence[PublishedVersion],
    moved: Mapping[str, Sides],
) -> dict[str, Any]:
    """One period of a report."""
    changed = _changed_rows(series, history.in_whole(series, before, known), history.in_whole(series, after, known))
    return {
        "start": f"{after.start}",
        "before": before.label,
        "after": after.label,
        "state": after.state.value,
        "reason": after.reason.value,
        "explanation": after.row["restatement_reason"],
        "changed_rows": after.row["changed_rows"],
        "moved": {name: sides.as_json() for name, sides in moved.items()},
        "row_count": len(changed),
        "rows": [
            {"grain": grain, "moved": {name: sides.as_json() for name, sides in measures.items() if sides.changed}}
            for grain, measures in changed[:ROWS]
        ],
    }


def _changed_rows(
    series: Series, before: PublishedVersion, after: PublishedVersion
) -> list[tuple[dict[str, str | None], dict[str, Sides]]]:
    """The rows of the grain that differ, ordered by the difference of the first measures, greatest first; empty without a
    grain.
    """
    grain = series.grain
    if not grain:
        return []
    old, new = ({tuple(row[name] for name in grain): row for row in version.rows} for version in (before, after))
    measures = [measure.name for measure in series.metric.measures if measure.is_number]
    rows = []
    for key in {**new, **old}:
        sides = {name: Sides(old.get(key, {}).get(name), new.get(key, {}).get(name)) for name in measures}
        if any(side.changed for side in sides.values()):
            texts = (
                None if value is None else window_history.text(name, value, series.metric) for name, value in zip(grain, key)
            )
            values = dict(zip(grain, texts))
            rows.append((tuple(-side.size for side in sides.values()), f"{key}", values, sides))
    return [(values, sides) for *_, values, sides in sorted(rows, key=lambda row: row[:2])]


def _greatest(listed: list[tuple[Any, str, Any]]) -> list[tuple[Any, str, Any]]:
    return sorted(listed, key=lambda entry: entry[:2])[:PERIODS]


def _shortened(trigger: Mapping[str, Any]) -> dict[str, Any]:
    """A publication's trigger with only the first entries of each list and mapping."""
    causes: dict[str, Any] = {}
    for name, value in trigger.items():
        if name in _LEFT_OUT:
            continue
        if isinstance(value, list):
            causes[name] = value[:CAUSES]
        else:
            causes[name] = dict(list(value.items())[:CAUSES]) if isinstance(value, dict) else value
        if isinstance(value, list | dict) and len(value) > CAUSES:
            causes[f"{name}_in_all"] = len(value)
    return causes


_SHOWN = 3


class PublishedChange(NamedTuple):
    """A change of a dimension in words, and the days that were published because of it."""

    series: str
    words: str
    days: list[date]
    published_at: datetime


def because(lake: Lake, series: Series, version: PublishedVersion) -> str | None:
    """The changes of dimensions that restated a day: ``the tier of customer 17 from 2024-11-04 to 2024-11-08 became gold``.

    :returns: None for a version that no recorded change of a dimension restated.
    """
    publication_id = version.row.get("publication_id")
    if not (series.metric.joins and series.kind is Kind.DAY and publication_id and version.restates):
        return None
    publication = publications.find(lake, series.name, publication_id)
    return attribute_words(recorded_changes(lake, publication), series.metric, [version.start]) if publication else None


def changes_of_key(lake: Lake, series: Series, dimension: str, key: str) -> Iterator[PublishedChange]:
    """The recorded changes of a key that restated days of a metric, oldest first.

    :param key: in the form of the dimension's column ``dimension_key``.
    """
    for publication in publications.of(lake, series.name):
        for change in recorded_changes(lake, publication).get("first", ()):
            if (change["dimension"], change["key"]) == (dimension, key):
                concerned = days_reached(series.metric, {date.fromisoformat(day) for day in change["days"]})
                days = sorted(day for day in concerned if f"{day}" in publication.published)
                yield PublishedChange(series.name, _sentence(change, series.metric), days, publication.recorded_at)


def recorded_changes(lake: Lake, publication: Publication) -> Mapping[str, Any]:
    """The changes of dimensions that a publication recorded, without the values of fields that were redacted since."""
    changes = publication.dimension_changes
    first = changes.get("first", ())
    hidden = {(name, *field) for name in {change["dimension"] for change in first} for field in _redacted(lake, name)}
    if not hidden:
        return changes
    masked = [
        change | {"before": None, "after": None, "redacted": True}
        if (change["dimension"], change["column"], change["key"]) in hidden
        else change
        for change in first
    ]
    return {**changes, "first": masked}


def _redacted(lake: Lake, dimension: str) -> set[tuple[str, str | None]]:
    """The redacted fields of a dimension, each with the key."""
    by_field = redactions.keys_by_field(lake, dimension)
    return {
        (name, key)
        for name, record_keys in by_field.items()
        for key in dimension_keys(pa.array(sorted(record_keys), pa.string())).to_pylist()
    }


def attribute_words(changes: Mapping[str, Any], metric: MetricContract, days: Collection[date]) -> str | None:
    """The recorded changes that concern facts of the numbers of ``days``: the first of them and the number of others; None
    without any.

    :param changes: ``dimension_changes`` of a publication, see :func:`recorded_changes`.
    """
    of_days = {f"{day}" for day in source_days(metric, days)}
    concerning = [change for change in changes.get("first", ()) if not of_days.isdisjoint(change["days"])]
    if not concerning:
        return None
    sentences = [_sentence(change, metric) for change in concerning[:_SHOWN]]
    if left := len(concerning) - len(sentences):
        sentences.append(f"and {left} more")
    named = {(change["dimension"], change["key"], change["from"]) for change in changes["first"]}
    of_all = f" (of {changes['in_all']:,} changes in the publication)" if changes["in_all"] > len(named) else ""
    return "; ".join(sentences) + of_all


def _sentence(change: Mapping[str, Any], metric: MetricContract) -> str:
    end = "on" if change["to"] is None else f"to {_moment(change['to'])}"
    became = (
        "was changed"
        if change.get("redacted")
        else "is no longer known"
        if change["after"] is None
        else f"became {change['after']}"
    )
    return f"the {change['column']} of {_who(change, metric)} from {_moment(change['from'])} {end} {became}"


def _who(change: Mapping[str, Any], metric: MetricContract) -> str:
    """The key with the name of its column, as in ``customer 17``; a key of several columns with the name of the dimension."""
    contract = metric.dimensions.get(change["dimension"])
    columns = contract.primary_key if contract else []
    name = columns[0].removesuffix("_id") if len(columns) == 1 else change["dimension"]
    return f"{name} {change['key']}"


def _moment(text: str) -> str:
    """A time in words; for midnight in UTC only the day."""
    moment = datetime.fromisoformat(text)
    return f"{moment.date()}" if moment.time() == datetime.min.time() else format_moment(moment)
