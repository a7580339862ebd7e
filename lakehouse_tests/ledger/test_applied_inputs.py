"""Which event days wait for Silver, and for what: derived from what was recorded and what was applied, never stored."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import TYPE_CHECKING

import pytest

from lakehouse.ledger import applied_inputs, ingestions, rebuild_requests, redactions
from lakehouse.ledger.ingestions import Ingestion
from lakehouse.ledger.rebuild_requests import RebuildRequest
from lakehouse.ledger.redactions import Redaction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehouse.lake import Lake

NOW = datetime(2024, 2, 10, tzinfo=timezone.utc)
FIRST, SECOND, THIRD = (date(2024, 2, number) for number in (1, 2, 3))


def ingest(lake: Lake, ingestion_id: str, *days: date, status: str = "ingested") -> None:
    entry = Ingestion("events", ingestion_id, ingestion_id, FIRST, "a.csv", 1, None, status, "run", NOW, touched_days=[*days])  # type: ignore[arg-type]
    ingestions.record(lake, entry)


def apply(lake: Lake, days: Iterable[date], *ids: str) -> None:
    applied_inputs.record(lake, "events", run_id="run", days=days, ingestion_ids=ids, method="merge")


def request_rebuild(lake: Lake, *days: date) -> str:
    versions = {"code_before": None, "code_after": "c", "contract_before": None, "contract_after": "d"}
    span = {"first_day": min(days), "last_day": max(days)}
    return rebuild_requests.record(
        lake,
        RebuildRequest(
            "events", "rebuild", reason="mended", runner_id="anna", recorded_at=NOW, touched_days=[*days], **span, **versions
        ),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("cached", [False, True])
def test_a_day_waits_until_all_that_touches_it_is_applied_to_it(lake: Lake, cached: bool) -> None:
    lake = lake.cached() if cached else lake
    ingest(lake, "one", FIRST, SECOND)
    ingest(lake, "two", SECOND)
    assert applied_inputs.pending(lake, "events") == {FIRST: {"one"}, SECOND: {"one", "two"}}
    apply(lake, [SECOND], "one")
    assert applied_inputs.pending(lake, "events") == {FIRST: {"one"}, SECOND: {"two"}}
    apply(lake, [FIRST, SECOND], "one", "two")
    assert applied_inputs.pending(lake, "events") == {}
    ingest(lake, "three", THIRD)
    assert applied_inputs.pending(lake, "events") == {THIRD: {"three"}}


def test_files_that_are_held_or_known_touch_no_day(lake: Lake) -> None:
    ingest(lake, "held", FIRST, status="held")
    ingest(lake, "again", status="redelivered")
    assert applied_inputs.pending(lake, "events") == {}


def test_a_file_that_counts_again_waits_under_an_id_of_its_own(lake: Lake) -> None:
    ingest(lake, "one", FIRST)
    apply(lake, [FIRST], "one")
    ingest(lake, "one", FIRST, status="redelivered")
    [again] = [name for name in ingestions.inputs(ingestions.all_of(lake, "events")) if name != "one"]
    assert applied_inputs.pending(lake, "events") == {FIRST: {again}}
    apply(lake, [FIRST], again)
    assert applied_inputs.pending(lake, "events") == {}


def test_redactions_and_rebuilds_wait_as_files_do(lake: Lake) -> None:
    rebuild = request_rebuild(lake, FIRST)
    redaction = redactions.record(
        lake, "events", Redaction("key", ["amount"], "anna", "asked", NOW, touched_days=[FIRST, SECOND])
    )
    assert applied_inputs.pending(lake, "events") == {FIRST: {rebuild, redaction}, SECOND: {redaction}}
    apply(lake, [FIRST], rebuild, redaction)
    assert applied_inputs.pending(lake, "events") == {SECOND: {redaction}}


def test_sources_do_not_wait_for_each_other(lake: Lake) -> None:
    ingest(lake, "one", FIRST)
    assert applied_inputs.pending(lake, "others") == {}
    assert not applied_inputs.has_any(lake, "events")
    apply(lake, [FIRST], "one")
    assert applied_inputs.has_any(lake, "events")
    assert not applied_inputs.has_any(lake, "others")


@pytest.mark.parametrize("lost", ["applications", "ingestions"])
def test_nothing_recorded_means_nothing_waits_and_a_lost_table_is_no_error(lake: Lake, lost: str) -> None:
    assert applied_inputs.pending(lake, "events") == {}
    if lost == "applications":
        ingest(lake, "one", FIRST)
        assert applied_inputs.pending(lake, "events") == {FIRST: {"one"}}
    else:
        apply(lake, [FIRST], "one")
        assert applied_inputs.pending(lake, "events") == {}
