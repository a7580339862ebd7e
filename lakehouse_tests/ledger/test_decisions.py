"""A decision about a few rows is found without reading those about all others."""

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from lakehouse.lake import Lake
from lakehouse.ledger import decisions
from lakehouse.ledger.decisions import Decision
from lakehouse.ledger.ids import RowId
from lakehouse.ledger.log_table import LogTable
from lakehouse.ledger.row_states import StewardVerdict
from lakehouse.settings import Settings

MOMENT = datetime(2024, 1, 1, tzinfo=timezone.utc)


def decided(row: RowId, verdict: StewardVerdict, number: int = 1) -> Decision:
    when = MOMENT + timedelta(hours=number)
    return Decision(row[0], row[1], f"k{row[1]}", verdict, "ann", "why", when, number=number)


def test_the_decisions_about_rows_and_of_commands_are_those_among_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(Settings(root=str(tmp_path)))
    rows = [(f"file{line % 7}", line) for line in range(500)]
    first = decisions.record(lake, "events", [decided(row, StewardVerdict.ACCEPT) for row in rows])
    second = decisions.record(lake, "events", [decided(row, StewardVerdict.REJECT, 2) for row in rows[:3]])
    in_force, everything = decisions.newest(lake, "events"), decisions.all_of(lake, "events")
    assert decisions.decided_ingestions(lake, "events").to_pylist() == sorted({row[0] for row in rows})

    parsed: list[Decision] = []
    entries = LogTable.entries
    monkeypatch.setattr(LogTable, "entries", lambda self, table: parsed.extend(entries(self, table)) or entries(self, table))
    some = [rows[1], rows[400], ("file1", 2), ("unknown", 1)]  # two rows whose ids, mixed, name other rows
    assert decisions.newest_about(lake, "events", some) == {row: in_force[row] for row in (rows[1], rows[400])}
    assert decisions.all_of(lake, "events", [second]) == [entry for entry in everything if entry.decision_id == second]
    assert decisions.newest(lake, "events", [first])[rows[0]].verdict is StewardVerdict.ACCEPT
    assert len(parsed) < 20 + len(rows), "only the decisions about these rows"
    assert decisions.newest_about(lake, "other", some) == {}
    assert decisions.decided_ingestions(lake, "other").to_pylist() == []
