"""Which version of a number somebody asks for: the newest, the final one, one by its number, or what readers saw at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timezone
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeVar

from lakehouse.errors import LakehouseError
from lakehouse.gold.numbers.lifecycle import State, parse_version_name

if TYPE_CHECKING:
    from collections.abc import Sequence

KNOWN = "latest, final, first, r3, 2024-11-08, 2024-11-08T06:00:00Z, v2, or a name such as revenue_v2024-11-07.r2"
_REVISION = re.compile(r"r?(\d{1,9})(?:\.a(\d{1,9}))?")
_DATASET = re.compile(r"v(\d{1,9})")
_FRACTION = re.compile(r"(?<=[.])\d{1,6}")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].+)?")  # newer Pythons would read 2024-W45 as the Monday of that week


class SelectBy(str, Enum):
    """How a version is named."""

    LATEST = "latest"
    FINAL = "final"
    FIRST = "first"
    REVISION = "revision"
    AS_OF = "as_of"
    DATASET = "dataset"


class UnknownVersionError(LakehouseError):
    """A text that names no version, or a version that there is none of. Its text says which there are."""


@dataclass(frozen=True)
class VersionSelector:
    """A version somebody asks for. ``text`` is how it was written; the other fields belong to one way of naming each."""

    by: SelectBy
    text: str
    revision: int | None = None
    adjustment: int | None = None
    at: datetime | None = None
    dataset_version: int | None = None
    period: str | None = None
    series: str | None = None


class SelectableVersion(Protocol):
    """What a version has to tell of itself to be chosen."""

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


_Told = TypeVar("_Told", bound=SelectableVersion)


def parse(text: str) -> VersionSelector:
    """What a text asks for.

    A day means what readers saw at its end (UTC).

    :raises UnknownVersionError: for any other text.
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
        msg = f"{text!r} names no version; ask for {KNOWN}"
        raise UnknownVersionError(msg) from None


def choose(known: Sequence[_Told], selector: VersionSelector) -> tuple[_Told, str | None] | None:
    """The version that was asked for among those of one period, oldest first, and what else a reader has to know.

    :returns: None where the period has no such version.
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
    """:raises ValueError: for what is no time."""
    if not _MOMENT.fullmatch(word):
        raise ValueError(word)
    try:
        return datetime.combine(date.fromisoformat(word), time.max, timezone.utc)
    except ValueError:
        whole = _FRACTION.sub(lambda found: found[0].ljust(6, "0"), word)  # Python 3.10 reads no other fractions
        moment = datetime.fromisoformat(whole.replace("Z", "+00:00"))
        return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
