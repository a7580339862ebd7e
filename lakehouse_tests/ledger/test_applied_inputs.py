"""Which event days wait for Silver, and for what: derived from what was recorded and what was applied, never stored."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import TYPE_CHECKING

import pytest

from lakehouse.delta.table_cache import with_table_cache
from lakehouse.ledger import applied_inputs, ingestions, rebuild_requests, redactions
from lakehouse.ledger.ingestions import Ingestion
from lakehouse.ledger.rebuild_requests import RebuildRequest
from lakehouse.ledger.redactions import Redaction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehouse.settings import Settings

NOW = datetime(2024, 2, 10, tzinfo=timezone.utc)
FIRST, SECOND, THIRD = (date(2024, 2, number) for number in (1, 2, 3))


def ingest(settings: Settings, ingestion_id: str, *days: date, status: str = "ingested") -> None:
    entry = Ingestion("events", ingestion_id, ingestion_id, FIRST, "a.csv", 1, None, status, "run", NOW, touched_days=[*days])  # type: ignore[arg-type]
    ingestions.record(settings, entry)


def apply(settings: Settings, days: Iterable[date], *ids: str) -> None:
    applied_inputs.record(settings, "events", run_id="run", days=days, ingestion_ids=ids, method="merge", silver=None, now=NOW)


def request_rebuild(settings: Settings, *days: date) -> str:
    versions = {"code_before": None, "code_after": "c", "contract_before": None, "contract_after": "d"}
    span = {"first_day": min(days), "last_day": max(days)}
    return rebuild_requests.record(
        settings,
        RebuildRequest(
            "events", "rebuild", reason="mended", runner_id="anna", recorded_at=NOW, touched_days=[*days], **span, **versions
        ),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("cached", [False, True])
def test_a_day_waits_until_all_that_touches_it_is_applied_to_it(settings: Settings, cached: bool) -> None:
    settings = with_table_cache(settings) if cached else settings
    ingest(settings, "one", FIRST, SECOND)
    ingest(settings, "two", SECOND)
    assert applied_inputs.pending(settings, "events") == {FIRST: {"one"}, SECOND: {"one", "two"}}
    apply(settings, [SECOND], "one")
    assert applied_inputs.pending(settings, "events") == {FIRST: {"one"}, SECOND: {"two"}}
    apply(settings, [FIRST, SECOND], "one", "two")
    assert applied_inputs.pending(settings, "events") == {}
    ingest(settings, "three", THIRD)
    assert applied_inputs.pending(settings, "events") == {THIRD: {"three"}}


def test_files_that_are_held_or_known_touch_no_day(settings: Settings) -> None:
    ingest(settings, "held", FIRST, status="held")
    ingest(settings, "again", status="redelivered")
    assert applied_inputs.pending(settings, "events") == {}


def test_a_file_that_counts_again_waits_under_an_id_of_its_own(settings: Settings) -> None:
    ingest(settings, "one", FIRST)
    apply(settings, [FIRST], "one")
    ingest(settings, "one", FIRST, status="redelivered")
    [again] = [name for name in ingestions.inputs(ingestions.all_of(settings, "events")) if name != "one"]
    assert applied_inputs.pending(settings, "events") == {FIRST: {again}}
    apply(settings, [FIRST], again)
    assert applied_inputs.pending(settings, "events") == {}


def test_redactions_and_rebuilds_wait_as_files_do(settings: Settings) -> None:
    rebuild = request_rebuild(settings, FIRST)
    redaction = redactions.record(
        settings, "events", Redaction("key", ["amount"], "anna", "asked", NOW, touched_days=[FIRST, SECOND])
    )
    assert applied_inputs.pending(settings, "events") == {FIRST: {rebuild, redaction}, SECOND: {redaction}}
    apply(settings, [FIRST], rebuild, redaction)
    assert applied_inputs.pending(settings, "events") == {SECOND: {redaction}}


def test_sources_do_not_wait_for_each_other(settings: Settings) -> None:
    ingest(settings, "one", FIRST)
    assert applied_inputs.pending(settings, "others") == {}
    assert not applied_inputs.has_any(settings, "events")
    apply(settings, [FIRST], "one")
    assert applied_inputs.has_any(settings, "events")
    assert not applied_inputs.has_any(settings, "others")


@pytest.mark.parametrize("lost", ["applications", "ingestions"])
def test_nothing_recorded_means_nothing_waits_and_a_lost_table_is_no_error(settings: Settings, lost: str) -> None:
    assert applied_inputs.pending(settings, "events") == {}
    if lost == "applications":
        ingest(settings, "one", FIRST)
        assert applied_inputs.pending(settings, "events") == {FIRST: {"one"}}
    else:
        apply(settings, [FIRST], "one")
        assert applied_inputs.pending(settings, "events") == {}
