"""The changes of dimensions that restated a day, in words: the one wording that commands, API and pages use.

The changes are those that the publication recorded; which facts they concern is decided in ``dimensions.joins.changed_facts``.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import days_reached, source_days
from lakehouse.dimensions.tables import dimension_keys
from lakehouse.ledger import publications, redactions
from lakehouse.text import format_moment

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.lake import Lake
    from lakehouse.ledger.publications import Publication

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
    return words(recorded(lake, publication), series.metric, [version.start]) if publication else None


def of_key(lake: Lake, series: Series, dimension: str, key: str) -> Iterator[PublishedChange]:
    """The recorded changes of a key that restated days of a metric, oldest first.

    :param key: in the form of the dimension's column ``dimension_key``.
    """
    for publication in publications.of(lake, series.name):
        for change in recorded(lake, publication).get("first", ()):
            if (change["dimension"], change["key"]) == (dimension, key):
                concerned = days_reached(series.metric, {date.fromisoformat(day) for day in change["days"]})
                days = sorted(day for day in concerned if f"{day}" in publication.published)
                yield PublishedChange(series.name, _sentence(change, series.metric), days, publication.recorded_at)


def recorded(lake: Lake, publication: Publication) -> Mapping[str, Any]:
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


def words(changes: Mapping[str, Any], metric: MetricContract, days: Collection[date]) -> str | None:
    """The recorded changes that concern facts of the numbers of ``days``: the first of them and the number of others; None
    without any.

    :param changes: ``dimension_changes`` of a publication, see :func:`recorded`.
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
