"""Contracts are archived whole and once, and the source's contract at a given time is found."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from lakehouse import locations
from lakehouse.ledger import contract_archive

NOW = datetime(2024, 3, 1, tzinfo=timezone.utc)


def test_a_contract_is_kept_once_and_found_by_its_hash(lake) -> None:
    assert contract_archive.find(lake, "metric", "total", "1") is None
    assert contract_archive.record(lake, "metric", "total", "1", '{"metric": "total"}', NOW, "s1")
    assert not contract_archive.record(lake, "metric", "total", "1", '{"metric": "total"}', NOW, "s1")
    assert contract_archive.find(lake, "metric", "total", "1") == {"metric": "total"}
    assert contract_archive.find(lake, "source", "total", "1") is None
    assert len(locations.contract_archive(lake).read()) == 1


def test_the_contract_of_the_source_is_the_one_of_the_time(lake) -> None:
    for hour, source in enumerate(["s1", "s2", "s1"]):
        assert contract_archive.record(lake, "metric", "total", "1", "{}", NOW + timedelta(hours=hour), source)

    def at(hours: float) -> str | None:
        return contract_archive.source_version(lake, "total", "1", NOW + timedelta(hours=hours))

    assert [at(0), at(0.5), at(1), at(1.5), at(2), at(9)] == ["s1", "s1", "s2", "s2", "s1", "s1"]
    assert at(-1) == "s1", "a clock that was set back: the oldest that is known"
    assert contract_archive.source_version(lake, "total", "other", NOW) is None
