"""The log of stages as people read it: redacted values in its reports are masked."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING

from lakehouse.ledger import redactions
from lakehouse.ledger.redactions import Redaction
from lakehouse.stages import stage_log
from lakehouse.stages.stage_log import SampledRow, StageEvent, StageEventKind, StageKind, StageReport
from lakehouse_tests.support.empty_lake import lake_in

if TYPE_CHECKING:
    from pathlib import Path

AT = datetime(2024, 2, 3, 12, tzinfo=timezone.utc)


def row(key: str, name: str, amount: int) -> str:
    return json.dumps({"record_key": key, "name": name, "amount": amount}, ensure_ascii=False)


def test_redacted_fields_of_sampled_rows_are_masked(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    samples = [
        SampledRow(record_key=key, before=[row(key, "Zoë", 1)], after=[row(key, "Zoé", 2), row(key, "Zoe", 2)]) for key in "ab"
    ]
    report = StageReport(
        silver_version=3,
        rows_staged=1,
        rows_malformed=0,
        rows_waiting=0,
        days=[date(2024, 2, 1)],
        rows={"rows": [1, 1]},
        fields={},
        samples=samples,
        seed=0,
        series=[],
        day_threshold=Decimal(50),
        set_threshold=Decimal(10),
    )
    who = ("anna", "mended", AT)
    created = StageEvent(
        *("mended", 1, StageEventKind.CREATED, "events", StageKind.FILES, "1 file", *who), report=report.model_dump_json()
    )
    stage_log.record(lake, created)
    assert stage_log.find(lake, "mended").report == report
    redactions.record(lake, "events", Redaction("a", ["name"], "dpo", "request", AT))
    shown = stage_log.find(lake, "mended").report
    of_a = SampledRow(record_key="a", before=[row("a", "[redacted]", 1)], after=[row("a", "[redacted]", 2)] * 2)
    assert shown == report.model_copy(update={"samples": [of_a, samples[1]]})
    assert [stage.report for stage in stage_log.all_of(lake, "events")] == [shown]
