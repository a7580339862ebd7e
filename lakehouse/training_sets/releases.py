"""``ops/releases``: the versions of labels, training sets and models, with their notes, and when they were deprecated.

One log for all three, so that notes and deprecations have one form. A version is released once and never changes; what belongs to
it is in ``about``: of labels the set of inputs, of a training set its manifest, of a model its lineage.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from lakehouse.errors import LakehouseError
from lakehouse.ledger.log_table import LogTable
from lakehouse.training_sets import addresses

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from lakehouse.settings import Settings

#: What a version looks like: v3.0, v12.4.
VERSION = re.compile(r"v(\d+)\.(\d+)")


class ReleaseError(LakehouseError):
    """A version that is unknown, taken or deprecated. The message says what to do."""


class ReleaseKind(str, Enum):
    """What a version is of."""

    LABELS = "labels"
    TRAINING_SET = "training_set"
    MODEL = "model"


class ReleaseEvent(str, Enum):
    """What happened to a version."""

    RELEASED = "released"
    DEPRECATED = "deprecated"


@dataclass(frozen=True)
class Release:
    """A version that was released, or the record that it is deprecated.

    ``notes`` are for people; ``known_at`` is the time whose knowledge it contains, None for a model.
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


def log(settings: Settings) -> LogTable[Release]:
    """The table."""
    # The parts of a split are in the order of time: a manifest keeps the order in which it was written.
    return LogTable(Release, settings, addresses.releases(settings), partition_by="name", sort_keys=False)


def release(settings: Settings, entry: Release) -> Release:
    """Record a version, once: of two that are released under one name and version, the first counts.

    :returns: the version as it is recorded; the caller compares whether it is the one that it has made.
    :raises ReleaseError: for a version of another form.
    """
    if not VERSION.fullmatch(entry.version):
        msg = f"{entry.version!r} is no version: write v and two numbers, such as v3.0"
        raise ReleaseError(msg)
    log(settings).append([entry], app_id=f"release:{entry.kind.value}:{entry.full_name}")
    return find(settings, entry.kind, entry.name, entry.version)


def deprecate(settings: Settings, kind: ReleaseKind, name: str, version: str, *, by: str, notes: str) -> Release:
    """Record that nobody should use a version from now on; its rows and its history stay.

    :param notes: why, and what to use in its place.
    :raises ReleaseError: for an unknown version.
    """
    known = find(settings, kind, name, version)
    changes = {"event": ReleaseEvent.DEPRECATED, "by": by, "notes": notes, "recorded_at": settings.clock(), "about": {}}
    entry = Release(**{**vars(known), **changes})
    log(settings).append([entry], app_id=f"deprecation:{kind.value}:{known.full_name}")
    return entry


def all_of(settings: Settings, kind: ReleaseKind | None = None, name: str | None = None) -> list[Release]:
    """The released versions, in the order of name and version."""
    return [entry for entry in _entries(settings, kind, name) if entry.event is ReleaseEvent.RELEASED]


def deprecations(settings: Settings, kind: ReleaseKind | None = None, name: str | None = None) -> dict[str, Release]:
    """The records of deprecation by full name."""
    entries = _entries(settings, kind, name)
    return {entry.full_name: entry for entry in entries if entry.event is ReleaseEvent.DEPRECATED}


def find(settings: Settings, kind: ReleaseKind, name: str, version: str) -> Release:
    """A released version.

    :raises ReleaseError: if there is none; the message lists those that there are.
    """
    known = {entry.version: entry for entry in all_of(settings, kind, name)}
    if version not in known:
        msg = f"{name} {version} does not exist; released are {', '.join(known) or 'none'}"
        raise ReleaseError(msg)
    return known[version]


def newest(settings: Settings, kind: ReleaseKind, name: str) -> Release | None:
    """The version that was released last; None without any."""
    return max(all_of(settings, kind, name), key=lambda entry: (entry.recorded_at, _numbers(entry.version)), default=None)


def next_version(settings: Settings, kind: ReleaseKind, name: str) -> str:
    """The version after the greatest one: its second number raised, or v1.0."""
    numbers = max((_numbers(entry.version) for entry in all_of(settings, kind, name)), default=None)
    return "v1.0" if numbers is None else f"v{numbers[0]}.{numbers[1] + 1}"


def _entries(settings: Settings, kind: ReleaseKind | None, name: str | None) -> list[Release]:
    entries = log(settings).read({"name": [name]} if name else None)
    of_kind = [entry for entry in entries if kind is None or entry.kind is kind]
    return sorted(of_kind, key=lambda entry: (entry.name, _numbers(entry.version), entry.recorded_at))


def _numbers(version: str) -> tuple[int, ...]:
    matched = VERSION.fullmatch(version)
    return tuple(int(number) for number in matched.groups()) if matched else ()
