"""Names of metrics, kinds of period and versions, as people and programs write them.

Names are resolved against contracts and against versions that the caller has read; each error lists what exists. Command line
and API convert these errors into their own. Reading versions belongs to ``history``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timezone
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeVar

from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import Series
from lakehouse.errors import LakehouseError
from lakehouse.gold.numbers.lifecycle import State, parse_version_name
from lakehouse.text import format_moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lakehouse.calendar.periods import Period
    from lakehouse.contracts import Catalog
    from lakehouse.contracts.metric import MetricContract

KNOWN = "latest, final, first, r3, 2024-11-08, 2024-11-08T06:00:00Z, v2, or a name such as revenue_v2024-11-07.r2"
_REVISION = re.compile(r"r?(\d{1,9})(?:\.a(\d{1,9}))?")
_DATASET = re.compile(r"v(\d{1,9})")
_FRACTION = re.compile(r"(?<=[.])\d{1,6}")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].+)?")  # newer Pythons would read 2024-W45 as the Monday of that week


class SelectBy(str, Enum):
    """The way in which a version is named."""

    LATEST = "latest"
    FINAL = "final"
    FIRST = "first"
    REVISION = "revision"
    AS_OF = "as_of"
    DATASET = "dataset"


class UnknownMetricError(LakehouseError):
    """A name that no metric contract has. The message lists the metrics."""


class UnpublishedKindError(LakehouseError):
    """A kind of period that a metric is not published for. The message lists the kinds that it is published for."""


class UnknownVersionError(LakehouseError):
    """A text that names no version, or a version that does not exist. The message lists what may be named."""


class MissingVersionError(UnknownVersionError):
    """A version that a period does not have. The caller appends the existing versions to the message."""


@dataclass(frozen=True)
class VersionSelector:
    """A version by name. ``text`` is the name as it was written; each of the other fields belongs to one way of naming."""

    by: SelectBy
    text: str
    revision: int | None = None
    adjustment: int | None = None
    at: datetime | None = None
    dataset_version: int | None = None
    period: str | None = None
    series: str | None = None


class SelectableVersion(Protocol):
    """The properties by which a version is selected."""

    @property
    def revision(self) -> int: ...
    @property
    def adjustment(self) -> int | None: ...
    @property
    def state(self) -> State: ...
    @property
    def published_at(self) -> datetime: ...
    @property
    def due_on(self) -> date | None: ...
    @property
    def dataset_version(self) -> int: ...


_Version = TypeVar("_Version", bound=SelectableVersion)


def find_metric(catalog: Catalog, name: str) -> MetricContract:
    """The metric with a table of that name: ``revenue``, or ``revenue_v2`` for a later dataset version.

    :raises UnknownMetricError: if there is none.
    """
    if name not in catalog.metrics:
        raise _unknown_metric(name, catalog.metrics)
    return catalog.metrics[name]


def find_first_version(catalog: Catalog, name: str) -> MetricContract:
    """The first dataset version of the metric that readers know as ``name``.

    :raises UnknownMetricError: if there is none.
    """
    versions = [metric for metric in catalog.metrics.values() if metric.metric == name]
    if not versions:
        raise _unknown_metric(name, {metric.metric for metric in catalog.metrics.values()})
    return min(versions, key=lambda metric: metric.dataset_version)


def series_for(metric: MetricContract, kind: Kind, daily: Series) -> Series:
    """The series of a metric for a kind of period.

    :param daily: the days of the metric as readers see them.
    :raises UnpublishedKindError: if the metric is not published for ``kind``.
    """
    if kind is Kind.DAY:
        return daily
    check_published(metric, kind)
    return Series(daily.metric, kind, daily.called)


def check_published(metric: MetricContract, kind: Kind) -> None:
    """Check that a metric is published for a kind of period.

    :raises UnpublishedKindError: if it is not.
    """
    if kind is not Kind.DAY and kind.value not in metric.publication.rollups:
        published = ", ".join(["day", *metric.publication.rollups])
        msg = f"{metric.name} is published by {published}, not by {kind.value}"
        raise UnpublishedKindError(msg)


def parse(text: str) -> VersionSelector:
    """Parse the name of a version. A day means its end (UTC).

    :raises UnknownVersionError: for a text that names no version.
    """
    word = text.strip()
    if word in (SelectBy.LATEST.value, SelectBy.FINAL.value, SelectBy.FIRST.value):
        return VersionSelector(SelectBy(word), word)
    if found := _REVISION.fullmatch(word):
        return VersionSelector(SelectBy.REVISION, word, revision=int(found[1]), adjustment=int(found[2]) if found[2] else None)
    if found := _DATASET.fullmatch(word):
        return VersionSelector(SelectBy.DATASET, word, dataset_version=int(found[1]))
    if name := parse_version_name(word):
        return VersionSelector(SelectBy.REVISION, word, name.revision, name.adjustment, period=name.period, series=name.series)
    try:
        return VersionSelector(SelectBy.AS_OF, word, at=_moment(word))
    except ValueError:
        msg = f"{text!r} is not the name of a version; use {KNOWN}"
        raise UnknownVersionError(msg) from None


def parse_moment(text: str) -> datetime:
    """Parse a time; a day means its end (UTC).

    :raises UnknownVersionError: for a text that is not a time.
    """
    selector = parse(text)
    if selector.at is None:
        msg = f"{text!r} is not a time; write 2024-11-08 or 2024-11-08T06:00:00Z"
        raise UnknownVersionError(msg)
    return selector.at


def parse_revision(text: str) -> int:
    """Parse the number of a revision: r3, or 3.

    :raises UnknownVersionError: for any other text.
    """
    number = text.strip().removeprefix("r")
    if not number.isascii() or not number.isdigit() or not int(number):
        msg = f"a revision is written as r3 or 3, not {text!r}"
        raise UnknownVersionError(msg)
    return int(number)


def parse_dataset_version(text: str) -> int:
    """Parse the number of a dataset version: v2, or 2.

    :raises UnknownVersionError: for any other text.
    """
    number = text.removeprefix("v")
    if not number.isdecimal() or not int(number):
        msg = f"{text!r} is not a dataset version; write it as v2"
        raise UnknownVersionError(msg)
    return int(number)


def adjustments_of(versions: Iterable[_Version], chosen: _Version, selector: VersionSelector | None = None) -> list[_Version]:
    """The adjustments that belong to a revision, oldest first: adjustments of older revisions are contained in it.

    :param selector: with an as-of time, only adjustments published by that time.
    """
    until = selector.at if selector else None
    of_revision = [one for one in versions if one.adjustment is not None and one.revision == chosen.revision]
    return [one for one in of_revision if until is None or one.published_at <= until]


def select(
    versions: Sequence[_Version], selector: VersionSelector, series: Series, period: Period
) -> tuple[_Version, str | None]:
    """Select a version among those of one period, oldest first.

    :returns: the version, and a note with additional information for the reader.
    :raises UnknownVersionError: if the period has no such version, or the name belongs to another series or period.
    """
    if selector.series is not None and (selector.series, selector.period) != (series.name, period.name):
        text, theirs = selector.text, f"{selector.series} for {selector.period}"
        msg = f"{text} is a version of {theirs}, not of {series.name} for {period.name}"
        raise UnknownVersionError(msg)
    if not versions:
        msg = f"nothing of {series.name} has been published for {period.name}"
        raise UnknownVersionError(msg)
    selected = choose(versions, selector)
    if selected is None:
        msg = f"{series.name} has no version {selector.text} of {period.name}: it was first published " + format_moment(
            versions[0].published_at
        )
        raise MissingVersionError(msg)
    return selected


def nothing_published(series: Series, text: str, start: date, known: Iterable[date]) -> str:
    """A sentence that a period has no number, with the nearest published periods.

    :param text: the period as the user wrote it.
    :param start: its first day.
    :param known: the first days of the published periods.
    """
    starts = sorted(known)
    near = [max((one for one in starts if one < start), default=None), min((one for one in starts if one > start), default=None)]
    names = [series.period(one).name for one in near if one is not None]
    nearest = f"; the nearest that {'are' if len(names) > 1 else 'is'} published: {', '.join(names)}" if names else ""
    return f"nothing of {series.name} has been published for {text}{nearest}"


def choose(known: Sequence[_Version], selector: VersionSelector) -> tuple[_Version, str | None] | None:
    """Select a version among those of one period, oldest first.

    :returns: the version with a note as from :func:`select`; None if the period has no such version.
    """
    revisions = [version for version in known if version.adjustment is None]
    if selector.by is SelectBy.FIRST:
        return revisions[0], None
    if selector.by is SelectBy.REVISION:
        wanted = (selector.revision, selector.adjustment)
        return next(((version, None) for version in known if (version.revision, version.adjustment) == wanted), None)
    if selector.by is SelectBy.AS_OF and selector.at is not None:
        revisions = [version for version in revisions if version.published_at <= selector.at]
    if selector.by is SelectBy.DATASET:
        revisions = [version for version in revisions if version.dataset_version == selector.dataset_version]
    if not revisions:
        return None
    latest = revisions[-1]
    if selector.by is SelectBy.FINAL and latest.state is not State.FINAL:
        until = f"; the next state is due on {latest.due_on}" if latest.due_on else ""
        return latest, f"not final: this is the newest number, and it is {latest.state.value}{until}"
    return latest, None


def _moment(word: str) -> datetime:
    """:raises ValueError: for a text that is not a time."""
    if not _MOMENT.fullmatch(word):
        raise ValueError(word)
    try:
        return datetime.combine(date.fromisoformat(word), time.max, timezone.utc)
    except ValueError:
        whole = _FRACTION.sub(lambda match: match[0].ljust(6, "0"), word)  # Python 3.10 reads no other fractions
        moment = datetime.fromisoformat(whole.replace("Z", "+00:00"))
        return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def _unknown_metric(name: str, metrics: Iterable[str]) -> UnknownMetricError:
    return UnknownMetricError(f"No contract has 'metric: {name}'; known are {', '.join(sorted(metrics)) or 'none'}.")
