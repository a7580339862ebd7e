"""A deployment made by an earlier version keeps working after the update: its tables are read and written as they are.

What it holds is in ``lakehouse_tests/support/earlier_deployment/make.py``; the numbers here are worked out by hand from that.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.lake import Table
from lakehouse_tests.support import earlier_deployment
from lakehouse_tests.support.cli import lakehouse_command

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.merge

#: Event day: every version as (revision, adjustment, turnover, orders, state, reason).
DAYS: dict[str, list[tuple[int, int | None, str | None, int, str, str]]] = {
    "2024-03-04": [
        (1, None, "30.00", 2, "preliminary", "initial"),
        (2, None, "34.50", 3, "preliminary", "correction"),
        (3, None, "34.50", 3, "final", "daily_finalization"),
        (3, 1, "9.50", 1, "final", "late_data"),
    ],
    "2024-03-05": [
        (1, None, "5.00", 1, "live", "initial"),
        (2, None, "5.00", 1, "preliminary", "daily_finalization"),
        (3, None, None, 0, "preliminary", "correction"),
        (4, None, None, 0, "final", "daily_finalization"),
    ],
    "2024-03-06": [
        (1, None, "8.00", 1, "live", "initial"),
        (2, None, "8.00", 1, "preliminary", "daily_finalization"),
        (3, None, "8.00", 1, "final", "daily_finalization"),
    ],
    "2024-03-07": [
        (1, None, "7.00", 1, "live", "initial"),
        (2, None, "7.00", 1, "preliminary", "daily_finalization"),
    ],
    "2024-03-08": [(1, None, "60.00", 1, "preliminary", "initial")],
    "2024-03-11": [
        (1, None, "4.00", 1, "live", "initial"),
        (2, None, "4.00", 1, "preliminary", "daily_finalization"),
    ],
}
#: The weeks: their newest version.
WEEKS = {"2024-W10": (4, "109.50", 6, "preliminary"), "2024-W11": (2, "13.50", 2, "live")}
#: What the day after brings: a late order of the 8th, and one of its own day. The number of the 7th is signed off before.
NEW_DAYS = {
    "2024-03-07": (3, None, "62.00", 2, "preliminary", "late_data"),
    "2024-03-08": (2, None, "61.00", 2, "preliminary", "late_data"),
    "2024-03-12": (1, None, "6.00", 1, "live", "initial"),
}
NEW_WEEKS = {"2024-W10": (5, "165.50", 8, "preliminary"), "2024-W11": (3, "19.50", 3, "live")}
ARRIVALS = """\
order_id,store,amount,ordered_at,received_at,op
o13,north,6.00,2024-03-12T12:00:00Z,2024-03-12T18:00:00Z,insert
o14,south,1.00,2024-03-08T12:00:00Z,2024-03-12T18:00:00Z,insert
"""


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    earlier_deployment.unpack(tmp_path)
    return tmp_path


def run(folder: Path, *arguments: str) -> str:
    """Run a command at noon of the 12th; the deployment was last used that morning."""
    done = lakehouse_command(
        folder,
        *arguments,
        LAKEHOUSE_LANDING=str(folder / "landing"),
        LAKEHOUSE_BUNDLED_CONTRACTS="false",
        LAKEHOUSE_NOW="2024-03-12T12:00:00Z",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def entries(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(folder, *arguments, "--json").splitlines()]


def published(folder: Path, table: str) -> dict[tuple[str, int, int | None], dict[str, Any]]:
    """All published rows, by period, revision and adjustment."""
    rows = Table(str(folder / "lake" / "gold" / table)).read()
    assert rows is not None
    return {(row["period"], row["revision"], row["adjustment"]): row for row in rows.to_pylist()}


def versions(folder: Path, period: str) -> list[tuple[Any, ...]]:
    """The history of a day as the command prints it."""
    return [
        (
            entry["revision"],
            entry.get("adjustment"),
            entry["rows"][0]["turnover"],
            entry["rows"][0]["orders"],
            entry["state"],
            entry["reason"],
        )
        for entry in entries(folder, "gold", "history", "turnover", period)
    ]


def weeks(folder: Path) -> dict[str, tuple[int, str, int, str]]:
    """The newest version of each week: revision, turnover, orders, state."""
    return {
        row["period"]: (row["revision"], str(row["turnover"]), row["orders"], row["state"])
        for row in published(folder, "turnover_weekly").values()
        if row["is_latest"]
    }


def dispositions(folder: Path) -> list[dict[str, int]]:
    """What became of the rows of each arrival day; zero counts are left out."""
    return [
        {name: count for name, count in entry.items() if count and name != "arrival_date"}
        for entry in entries(folder, "account", "orders")
    ]


ACCOUNT = [
    {"rows": 3, "applied": 1, "superseded": 2},
    {"rows": 3, "applied": 3},
    {"rows": 3, "applied": 2, "malformed": 1},
    {"rows": 6, "applied": 4, "quarantined": 1, "rejected": 1},
]


def test_all_that_an_earlier_version_recorded_is_read(folder: Path) -> None:
    for period, expected in DAYS.items():
        assert versions(folder, period) == expected
    assert weeks(folder) == WEEKS
    (final,) = entries(folder, "gold", "show", "turnover", "2024-03-04", "--version", "2024-03-07T00:00:00Z")
    assert (final["version_name"], final["rows"][0]["turnover"]) == ("turnover_v2024-03-04.r2", "34.50")
    (held,) = entries(folder, "gold", "held")
    assert (held["period"], held["revision"], held["rows"][0]["turnover"]) == ("2024-03-07", 3, "62.00")
    assert dispositions(folder) == ACCOUNT
    quarantined = entries(folder, "quarantine", "list", "orders", "--status", "any")
    assert {entry["record_key"]: entry["quarantine_status"] for entry in quarantined} == {
        "o7": "accepted",
        "o8": "rejected",
        "o9": "open",
    }
    audit = [(entry["event_id"], entry["action_type"]) for entry in entries(folder, "audit", "orders")]
    assert sorted(audit) == [
        ("o1", "correction"),
        ("o1", "late_merge"),
        ("o11", "late_merge"),
        ("o12", "late_merge"),
        ("o2", "late_merge"),
        ("o3", "correction"),
        ("o5", "late_merge"),
        ("o7", "steward"),
    ]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.timeout(900)
def test_the_next_arrival_day_restates_exactly_its_days(folder: Path) -> None:
    days, of_weeks = published(folder, "turnover"), published(folder, "turnover_weekly")
    audited = {entry["audit_id"] for entry in entries(folder, "audit", "orders")}
    run(folder, "gold", "publish", "turnover", "2024-03-07", "--revision", "3", "--by", "anna", "--reason", "a large order")
    (folder / "landing" / "arrival_date=2024-03-12.csv").write_text(ARRIVALS)
    run(folder, "replay", "orders", "--from", "2024-03-12")

    after = published(folder, "turnover")
    assert after.keys() - days.keys() == {(period, version[0], None) for period, version in NEW_DAYS.items()}
    for period, version in NEW_DAYS.items():
        assert versions(folder, period) == [*DAYS.get(period, []), version]
    assert after["2024-03-07", 3, None]["signed_off_by"] == "anna"
    assert after["2024-03-08", 2, None]["restatement_reason"] == "late_data: 1 arrived late"
    assert weeks(folder) == NEW_WEEKS
    after_weeks = published(folder, "turnover_weekly")
    assert after_weeks.keys() - of_weeks.keys() == {(period, week[0], None) for period, week in NEW_WEEKS.items()}
    closed = ("is_latest", "superseded_at", "due_on")  # what the next version changes of the one before it
    new = {"dimension_inputs"}  # a column that tables of earlier releases get with the next version
    for before, now in ((days, after), (of_weeks, after_weeks)):
        for key, row in before.items():
            assert now[key].keys() - row.keys() <= new
            unchanged = dict.fromkeys(new - row.keys()) | row | dict.fromkeys(closed)
            assert unchanged == now[key] | dict.fromkeys(new - now[key].keys()) | dict.fromkeys(closed), (
                "what was published stays"
            )
    assert dispositions(folder) == [*ACCOUNT, {"rows": 2, "applied": 2}]
    audit = {entry["audit_id"]: entry["event_id"] for entry in entries(folder, "audit", "orders")}
    assert [audit[audit_id] for audit_id in audit.keys() - audited] == ["o14"], "what was audited is not audited again"
    assert audited < audit.keys()

    run(folder, "replay", "orders")
    assert published(folder, "turnover") == after, "nothing is published again"
    assert published(folder, "turnover_weekly") == after_weeks
