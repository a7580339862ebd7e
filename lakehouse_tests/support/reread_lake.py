"""A lake whose source gets another contract, under which its raw records are read again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse.reparse.apply import apply
from lakehouse.reparse.read_again import read_again
from lakehouse_tests.support.lake import Lake, contract

if TYPE_CHECKING:
    from datetime import date

    from lakehouse.reparse.read_again import ReadingSummary
    from lakehouse.settings import Settings
    from lakehouse.silver.rebuild import PlannedRebuild

#: A source whose times have no zone of their own.
NAIVE: dict[str, Any] = {"event": "event_time", "arrival": "arrived_at", "naive_times": "in_timezone"}


def source(zone: str = "UTC", **changes: Any) -> Any:
    """A contract in a time zone."""
    return contract(**{"clocks": {**NAIVE, "timezone": zone}} | changes)


def folder(settings: Settings, name: str) -> Settings:
    """Settings with a root of their own, for a reading."""
    return settings.model_copy(update={"root": str(Path(settings.root).parent / name)})


def read(lake: Lake, into: Settings, first: date | None = None, last: date | None = None) -> ReadingSummary:
    """Read the raw records again, under the lake's contract."""
    return read_again(lake.settings, lake.contract, lambda: lake.spark, first, last, into)


def put(lake: Lake, from_: Settings, reason: str = "the zone was wrong") -> PlannedRebuild:
    """Put a reading into force."""
    return apply(lake.settings, lake.contract, lambda: lake.spark, from_, by="anna", reason=reason)


def reread(lake: Lake, name: str = "reading") -> ReadingSummary:
    """Read again, put the rows into force and bring silver up to date."""
    into = folder(lake.settings, name)
    summary = read(lake, into)
    put(lake, into)
    lake.update()
    return summary
