"""``ops/releases``: the versions of labels, training sets and models, with their notes and deprecations.

One log for all three, so that notes and deprecations have one form. A version is released once and never changes. Its description
is in ``about``: the set of inputs of labels, the manifest of a training set, the lineage of a model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.contracts.training_set import TrainingSetContract
from lakehouse.errors import LakehouseError
from lakehouse.lake import table_io
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import pyarrow as pa

    from lakehouse.lake import Lake

#: The form of a version: v3.0, v12.4.
VERSION = re.compile(r"v(\d+)\.(\d+)")


class ReleaseError(LakehouseError):
    """A version that is unknown, taken or deprecated. The message names the remedy."""


class ReleaseKind(str, Enum):
    """The kinds of released objects."""

    LABELS = "labels"
    TRAINING_SET = "training_set"
    MODEL = "model"


class ReleaseEvent(str, Enum):
    """The events of a version."""

    RELEASED = "released"
    DEPRECATED = "deprecated"


@dataclass(frozen=True)
class Release:
    """A released version, or the record of its deprecation.

    ``notes`` are for people; ``known_at`` is the time of the contained knowledge, None for a model.
    """

    name: str
    kind: ReleaseKind
    version: str
    event: ReleaseEvent
    notes: str
    by: str
    recorded_at: datetime
    known_at: datetime | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """The name with the version, such as ``training_data_v5.0``."""
        return f"{self.name}_{self.version}"


def log(lake: Lake) -> LogTable[Release]:
    """The table of releases."""
    # The parts of a split are in order of time: a manifest keeps the order in which it was written.
    return LogTable(Release, lake, locations.releases(lake), partition_by="name", sort_keys=False)


def release(lake: Lake, entry: Release) -> Release:
    """Record a version once: if two are released under one name and version, the first counts.

    :returns: the recorded version; the caller checks whether it is its own.
    :raises ReleaseError: if the version name is malformed.
    """
    if not VERSION.fullmatch(entry.version):
        msg = f"{entry.version!r} is no version: write v and two numbers, such as v3.0"
        raise ReleaseError(msg)
    log(lake).append([entry], app_id=f"release:{entry.kind.value}:{entry.full_name}")
    return find(lake, entry.kind, entry.name, entry.version)


def deprecate(lake: Lake, kind: ReleaseKind, name: str, version: str, *, by: str, notes: str) -> Release:
    """Deprecate a version: it should no longer be used. Its rows and its history stay.

    :param notes: the reason, and the replacement.
    :raises ReleaseError: if the version is unknown.
    """
    known = find(lake, kind, name, version)
    changes = {"event": ReleaseEvent.DEPRECATED, "by": by, "notes": notes, "recorded_at": lake.now(), "about": {}}
    entry = Release(**{**vars(known), **changes})
    log(lake).append([entry], app_id=f"deprecation:{kind.value}:{known.full_name}")
    return entry


def all_of(lake: Lake, kind: ReleaseKind | None = None, name: str | None = None) -> list[Release]:
    """The released versions, in the order of name and version."""
    return [entry for entry in _entries(lake, kind, name) if entry.event is ReleaseEvent.RELEASED]


def deprecations(lake: Lake, kind: ReleaseKind | None = None, name: str | None = None) -> dict[str, Release]:
    """The deprecation records, by full name."""
    entries = _entries(lake, kind, name)
    return {entry.full_name: entry for entry in entries if entry.event is ReleaseEvent.DEPRECATED}


def find(lake: Lake, kind: ReleaseKind, name: str, version: str) -> Release:
    """Find a released version.

    :raises ReleaseError: if it does not exist; the message lists the existing versions.
    """
    known = {entry.version: entry for entry in all_of(lake, kind, name)}
    if version not in known:
        msg = f"{name} {version} does not exist; released are {', '.join(known) or 'none'}"
        raise ReleaseError(msg)
    return known[version]


def newest(lake: Lake, kind: ReleaseKind, name: str) -> Release | None:
    """The last released version; None without one."""
    return max(all_of(lake, kind, name), key=lambda entry: (entry.recorded_at, _numbers(entry.version)), default=None)


def next_version(lake: Lake, kind: ReleaseKind, name: str) -> str:
    """The version after the greatest one: with its second number incremented, or v1.0."""
    numbers = max((_numbers(entry.version) for entry in all_of(lake, kind, name)), default=None)
    return "v1.0" if numbers is None else f"v{numbers[0]}.{numbers[1] + 1}"


def _entries(lake: Lake, kind: ReleaseKind | None, name: str | None) -> list[Release]:
    entries = log(lake).read({"name": [name]} if name else None)
    of_kind = [entry for entry in entries if kind is None or entry.kind is kind]
    return sorted(of_kind, key=lambda entry: (entry.name, _numbers(entry.version), entry.recorded_at))


def _numbers(version: str) -> tuple[int, ...]:
    matched = VERSION.fullmatch(version)
    return tuple(int(number) for number in matched.groups()) if matched else ()


class MissingSetError(LakehouseError):
    """A training set version whose rows are gone. The message says how to restore them."""


def contract_of(release: Release) -> TrainingSetContract:
    """The contract under which a version was built."""
    return TrainingSetContract.model_validate(release.about["contract"])


def read_set(lake: Lake, release: Release, columns: Sequence[str] | None = None, where: table_io.Where | None = None) -> pa.Table:
    """Rows of a version: record_key, event_ts, split, the features, label, label_known_at, and the join columns.

    :param columns: all by default.
    :param where: for columns, the values of which a row must have one.
    :raises MissingSetError: if the table is gone.
    """
    stored = locations.training_set(lake, release.name, release.version)
    table = stored.open()
    if table is None:
        name = f"{release.name} {release.version}"
        msg = f"there is no table at {stored}: 'lakehouse dataset reproduce {name}' makes the rows of {name} again"
        raise MissingSetError(msg)
    names = [item.name for item in table.schema().fields] if columns is None else list(columns)
    return table_io.read_version(table, names, where or {})
