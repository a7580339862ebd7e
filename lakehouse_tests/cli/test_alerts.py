"""`lakehouse alerts` as people type it."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from lakehouse.lake import Lake
from lakehouse.operations.alerts import log as alert_log
from lakehouse.operations.alerts.alert import Alert, AlertKind
from lakehouse.settings import Settings
from lakehouse_tests.support.forked_cli import lakehouse_command

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2024, 2, 1, 12, tzinfo=timezone.utc)
LATE = Alert(AlertKind.LATE_SHARE, "sales", "sales", NOW - timedelta(hours=2), "Too many late rows.", ["anna"], {"share": 0.5})
HELD = Alert(AlertKind.HELD, "revenue", "revenue", NOW, "revenue is held.", ["anna", "ben"], {}, "2024-01-31")


def lake_with_two_alerts(tmp_path: Path) -> tuple[Lake, list[str]]:
    lake = Lake(Settings(root=str(tmp_path / "lake"), now=NOW))
    opened = alert_log.record(lake, [], [LATE, HELD], lambda _: False, lambda _: ["log"])
    return lake, [record.alert_id for record in opened]


@pytest.mark.merge
def test_open_alerts_are_listed_and_resolved_ones_on_request(tmp_path: Path) -> None:
    assert lakehouse_command(tmp_path, "alerts").stdout == "No alert is open.\n"
    lake = Lake(Settings(root=str(tmp_path / "lake"), now=NOW))
    known = alert_log.record(lake, [], [LATE, HELD], lambda _: False, lambda _: ["log"])
    alert_log.record(lake, known, [HELD], lambda _: False, lambda _: ["log"])
    [line] = lakehouse_command(tmp_path, "alerts", "--json").stdout.splitlines()
    told = json.loads(line)
    assert (told["kind"], told["period"], told["addressed_to"]) == ("held", "2024-01-31", ["anna", "ben"])
    assert told["not_told_yet"] == {"opened": ["log"], "escalated": [], "grown": [], "resolved": []}
    everything = lakehouse_command(tmp_path, "alerts", "--all").stdout
    for text in ("revenue 2024-01-31", "anna, ben", "2024-02-01 10:00", "Too many late rows."):
        assert text in everything


@pytest.mark.merge
def test_an_alert_is_acknowledged_and_the_list_shows_by_whom(tmp_path: Path) -> None:
    _, (late, held) = lake_with_two_alerts(tmp_path)
    done = lakehouse_command(tmp_path, "alerts", "ack", late[:6], held, "--by", "anna", "--reason", "asked the shop")
    assert done.stdout.splitlines() == [
        f"{late} is acknowledged by anna: too many rows beyond the cutoff: sales",
        f"{held} is acknowledged by anna: a number is held: revenue 2024-01-31",
    ]
    assert "acknowledged by anna: asked the shop" in " ".join(lakehouse_command(tmp_path, "alerts", COLUMNS="400").stdout.split())
    [line] = lakehouse_command(tmp_path, "alerts", "list", "--json", "--kind", "held").stdout.splitlines()
    acknowledged = json.loads(line)["acknowledged"]
    assert (acknowledged["by"], acknowledged["reason"]) == ("anna", "asked the shop")


@pytest.mark.merge
def test_an_alert_is_snoozed_until_a_time_or_for_a_while(tmp_path: Path) -> None:
    sample, (late, held) = lake_with_two_alerts(tmp_path)
    now = {"LAKEHOUSE_NOW": NOW.isoformat()}
    done = lakehouse_command(tmp_path, "alerts", "snooze", late, "--for", "90m", **now)
    assert done.stdout == f"{late} is snoozed until 2024-02-01 13:30 UTC: too many rows beyond the cutoff: sales\n"
    done = lakehouse_command(tmp_path, "alerts", "snooze", held, "--until", "2024-02-03T09:00:00Z", "--by", "ben", **now)
    assert "is snoozed until 2024-02-03 09:00 UTC" in done.stdout
    assert [record.snoozed_until for record in alert_log.all_of(sample)] == [
        NOW + timedelta(minutes=90),
        datetime(2024, 2, 3, 9, tzinfo=timezone.utc),
    ]
    assert "snoozed until 2024-02-03 09:00" in " ".join(lakehouse_command(tmp_path, "alerts", COLUMNS="400").stdout.split())


@pytest.mark.merge
def test_what_cannot_be_done_says_why_and_what_there_is(tmp_path: Path) -> None:
    def refused(*arguments: str) -> str:
        done = lakehouse_command(tmp_path, "alerts", *arguments, LAKEHOUSE_NOW=NOW.isoformat())
        assert done.returncode != 0
        return " ".join(done.stderr.replace("│", " ").split())

    who = ("--by", "anna", "--reason", "seen")
    assert refused("ack", "12ab", *who) == "'12ab' names no open alert; there are none"
    _, (late, _) = lake_with_two_alerts(tmp_path)
    several = refused("ack", "", *who)
    assert "names several open alerts" in several
    unknown = refused("ack", "nonsense", *who)
    assert f"{late} (too many rows beyond the cutoff: sales)" in unknown
    assert "pass --until or --for: one of the two" in refused("snooze", late)
    assert "'2w' is no duration; write a number with m, h or d" in refused("snooze", late, "--for", "2w")
    assert "2024-01-01 00:00 UTC has passed" in refused("snooze", late, "--until", "2024-01-01T00:00:00Z")
    assert "--kind is one of late_share, tier_share, late_dropped, lag" in refused("list", "--kind", "loud")
