"""Pauses: who, why, since when; and which contract a name means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehouse.contracts import load_catalog
from lakehouse.operations import pauses
from lakehouse.operations.pauses import PauseError, PauseEventKind

if TYPE_CHECKING:
    from lakehouse.lake import Lake


def test_the_newest_event_of_each_contract_holds(lake: Lake) -> None:
    assert pauses.paused(lake) == {}
    first = pauses.pause(lake, "source/a", "anna", "why")
    pauses.pause(lake, "metric/a", "ben", "also")
    with pytest.raises(PauseError, match=r"source/a is paused by anna on .*: why"):
        pauses.pause(lake, "source/a", "ben", "again")
    assert pauses.paused(lake)["source/a"] == first
    with pytest.raises(PauseError, match="model/a is not paused; paused: metric/a, source/a"):
        pauses.resume(lake, "model/a", "ben", "so")
    assert [*pauses.paused(lake)] == ["metric/a", "source/a"]


def test_a_pause_ends_and_stays_on_record(lake: Lake) -> None:
    lake.settings.now = None
    pauses.pause(lake, "source/a", "anna", "why")
    pauses.resume(lake, "source/a", "anna", "so")
    pauses.pause(lake, "source/a", "anna", "why again")
    pauses.resume(lake, "source/a", "ben", "at last")
    assert pauses.paused(lake) == {}
    entries = sorted(pauses.log(lake).read(), key=lambda entry: entry.recorded_at)
    assert [entry.event for entry in entries] == [PauseEventKind.PAUSED, PauseEventKind.RESUMED] * 2


def test_a_name_means_one_contract() -> None:
    catalog = load_catalog(None)
    assert pauses.contract_named(catalog, "sales") == "source/sales"
    assert pauses.contract_named(catalog, "metric/revenue") == "metric/revenue"
    catalog.metrics["sales"] = catalog.metrics["revenue"]
    with pytest.raises(PauseError, match="write source/sales or metric/sales"):
        pauses.contract_named(catalog, "sales")
    assert pauses.contract_named(catalog, "metric/sales") == "metric/sales"
    with pytest.raises(PauseError, match=r"no source, metric or model 'revenu' \(did you mean 'revenue'\?\)"):
        pauses.contract_named(catalog, "revenu")
