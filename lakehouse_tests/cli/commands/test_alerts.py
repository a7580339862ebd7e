"""`lakehouse alerts` as people type it."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from lakehouse.operations.alerts import log as alert_log
from lakehouse.operations.alerts.alert import Alert, AlertKind
from lakehouse.settings import Settings
from lakehouse_tests.support.cli import lakehouse_command

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2024, 2, 1, 12, tzinfo=timezone.utc)
LATE = Alert(AlertKind.LATE_SHARE, "sales", "sales", NOW - timedelta(hours=2), "Too many late rows.", ["anna"], {"share": 0.5})
HELD = Alert(AlertKind.HELD, "revenue", "revenue", NOW, "revenue is held.", ["anna", "ben"], {}, "2024-01-31")


def test_open_alerts_are_listed_and_resolved_ones_on_request(tmp_path: Path) -> None:
    assert lakehouse_command(tmp_path, "alerts").stdout == "No alert is open.\n"
    lake = Settings(root=str(tmp_path / "lake"), now=NOW)
    known = alert_log.record(lake, [], [LATE, HELD], lambda _: False, lambda _: ["log"])
    alert_log.record(lake, known, [HELD], lambda _: False, lambda _: ["log"])
    [line] = lakehouse_command(tmp_path, "alerts", "--json").stdout.splitlines()
    told = json.loads(line)
    assert (told["kind"], told["period"], told["addressed_to"]) == ("held", "2024-01-31", ["anna", "ben"])
    assert told["not_told_yet"] == {"opened": ["log"], "resolved": []}
    everything = lakehouse_command(tmp_path, "alerts", "--all").stdout
    for text in ("revenue 2024-01-31", "anna, ben", "2024-02-01 10:00", "Too many late rows."):
        assert text in everything
