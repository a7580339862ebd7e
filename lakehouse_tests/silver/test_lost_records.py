"""Inputs that silver contains and that no table records any more are named with their table; without Spark."""

from __future__ import annotations

from datetime import date, datetime, timezone
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

import pytest

from lakehouse.lake import Lake
from lakehouse.ledger import applied_inputs, decisions, redactions
from lakehouse.ledger.decisions import Decision
from lakehouse.ledger.redactions import Redaction
from lakehouse.ledger.row_states import StewardVerdict
from lakehouse.settings import Settings
from lakehouse.silver import update

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime(2024, 2, 1, tzinfo=timezone.utc)
DAY = date(2024, 2, 1)


def applied(lake: Lake, *ids: str) -> None:
    applied_inputs.record(lake, "events", run_id="r", days=[DAY], ingestion_ids=ids, method="rebuild")


@pytest.fixture(name="lake")
def _settings(tmp_path: Path) -> Lake:
    return Lake(Settings(root=f"{tmp_path}/lake"))


def decided(lake: Lake) -> str:
    entry = Decision(
        ingestion_id="i",
        line_number=1,
        record_key="a",
        verdict=StewardVerdict.ACCEPT,
        by="anna",
        reason="why",
        decided_at=NOW,
        number=1,
        touched_days=[DAY],
    )
    return decisions.record(lake, "events", [entry])


def redacted(lake: Lake) -> str:
    entry = Redaction(record_key="a", fields=["name"], by="anna", reason="why", redacted_at=NOW, touched_days=[DAY])
    return redactions.record(lake, "events", entry)


@pytest.mark.parametrize(
    ("record", "table"),
    [(decided, "bronze/events_decisions has lost 1 decisions"), (redacted, "bronze/events_redactions has lost 1 redactions")],
)
def test_a_table_that_is_lost_with_its_journal_is_named_until_the_same_is_given_again(
    lake: Lake, record: Callable[[Lake], str], table: str
) -> None:
    update.require_no_lost_records(lake, "events")
    applied(lake, record(lake))
    update.require_no_lost_records(lake, "events")
    rmtree(f"{lake.root}/{table.split(maxsplit=1)[0]}")
    update.require_no_lost_records(lake, "events")  # its entries are written again from the journal
    rmtree(f"{lake.root}/{table.split(maxsplit=1)[0]}")
    rmtree(f"{lake.root}/ops/journal")
    with pytest.raises(update.LostRecordsError, match=table):
        update.require_no_lost_records(lake, "events")
    record(lake)
    update.require_no_lost_records(lake, "events")


def test_requests_that_only_rebuilt_days_and_files_that_came_again_may_be_lost(lake: Lake) -> None:
    applied(lake, "operation:1", "redelivery:2")
    update.require_no_lost_records(lake, "events")
