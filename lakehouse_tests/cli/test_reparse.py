"""``lakehouse source reparse`` as people type it: as a stage that is looked at and promoted, and at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lakehouse_tests.support.cli import BUNDLED_CONTRACTS
from lakehouse_tests.support.forked_cli import lakehouse_command

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.merge

LINES = (
    "sale_id,store,sold_at,amount,customer_id,received_at,op,is_correction,corrects_sale_id",
    "1,north,2024-11-05T20:00:00Z,9.50,1,2024-11-06T11:00:00Z,insert,0,",
    "2,north,2024-11-05T10:00:00Z,n/a,1,2024-11-06T11:00:00Z,insert,0,",
)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_what_would_change_is_shown_before_it_is_put_into_force(tmp_path: Path) -> None:
    def lakehouse(*arguments: str) -> str:
        done = lakehouse_command(tmp_path, *arguments, LAKEHOUSE_BUNDLED_CONTRACTS="false", LAKEHOUSE_NOW="2024-11-06T23:00:00Z")
        assert done.returncode == 0, done.stderr
        return done.stdout

    contracts, day = tmp_path / "contracts", tmp_path / "landing" / "arrival_date=2024-11-06"
    for folder in (contracts, day):
        folder.mkdir(parents=True)
    for name in ("sales.yaml", "revenue.yaml"):
        (contracts / name).write_bytes((BUNDLED_CONTRACTS / name).read_bytes())
    (day / "sales.csv").write_text("\n".join(LINES) + "\n")
    lakehouse("replay", "sales", "--landing", f"{tmp_path / 'landing'}")
    text = (contracts / "sales.yaml").read_text()
    (contracts / "sales.yaml").write_text(text.replace("clocks:\n", "clocks:\n  timezone: Asia/Tokyo\n"))
    command = ("reparse", "sales", "--by", "anna", "--reason", "the shops are in Tokyo")
    shown = lakehouse(*command)
    assert "reparse-sales-2024-11-06  sales  created  all of Bronze, read again, by anna" in shown
    assert "1 row staged" in shown
    assert "2 event days change, 2024-11-05 to 2024-11-06" in shown
    assert "event_date=2024-11-05" in shown
    assert "read again by" not in lakehouse("trace", "sales", "1")
    promoted = lakehouse(
        *(
            "stage",
            "promote",
            "reparse-sales-2024-11-06",
            "--by",
            "anna",
            "--reason",
            "the shops are in Tokyo",
            "--sign-off",
            "yes",
        )
    )
    assert "gold/revenue: 2024-11-05, 2024-11-06 published again." in promoted
    assert "read again by anna" in lakehouse("trace", "sales", "1")
    (record,) = json.loads(lakehouse("trace", "sales", "1", "--json"))["records"]
    assert (record["event_date"], record["reading"]["reason"]) == ("2024-11-06", "the shops are in Tokyo")
    assert "No row reads otherwise" in lakehouse(*command, "--now")
    listed = lakehouse("stage", "list", "sales")
    assert "reparse-sales-2024-11-06  sales  promoted" in listed
    told = json.loads(lakehouse("stage", "show", "reparse-sales-2024-11-06", "--json"))
    assert (told["state"], [event["by"] for event in told["events"]]) == ("promoted", ["anna"] * 3)
    assert told["report"]["series"][0]["rollups"] == {"revenue_weekly": ["2024-W45"], "revenue_monthly": ["2024-11"]}
    undone = lakehouse("stage", "undo", "reparse-sales-2024-11-06", "--by", "ben", "--reason", "they are not")
    assert "gold/revenue: put back 2024-11-05." in undone
    assert "first published by the stage, without a number to go back to: 2024-11-06" in undone
