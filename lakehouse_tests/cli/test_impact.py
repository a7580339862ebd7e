"""``lakehouse change impact`` as people type it, on files that are not ingested yet. None of these starts Spark."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

from lakehouse_tests.support.forked_cli import lakehouse_command

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "sale_id,store,sold_at,amount,customer_id,received_at,op,is_correction,corrects_sale_id"
LINES = (
    "1,north,2024-11-05T10:00:00Z,9.50,1,2024-11-06T11:00:00Z,insert,0,",
    "2,north,2024-11-05T10:00:00Z,9.x,1,2024-11-06T11:00:00Z,insert,0,",
    "3,north,2024-11-04T10:00:00Z,1.00,1,2024-11-06T11:00:00Z,insert,0,",
)
TEXT = "\n".join((HEADER, *LINES)) + "\n"


@pytest.mark.parametrize("zipped", [False, True])
def test_a_new_file_is_read_without_java_and_leaves_nothing_behind(tmp_path: Path, zipped: bool) -> None:
    file = tmp_path / "sales of yesterday"
    file.write_bytes(gzip.compress(TEXT.encode()) if zipped else TEXT.encode())
    done = lakehouse_command(tmp_path, "impact", "sales", "--file", file.name, PATH="/nonexistent", JAVA_HOME="")
    assert done.returncode == 0, done.stderr
    for sentence in (
        "2 rows with an event day, 1 malformed",
        "silver days that it would touch: 2024-11-04 to 2024-11-05",
        "gold/revenue: 2 periods, 0 final",
        "2024-11-05  not published yet  a change publishes it for the first time",
        "gold/revenue_weekly: 1 period, 0 final",
        "Readers of gold/revenue: none named in the contract",
    ):
        assert sentence in done.stdout
    assert sorted(tmp_path.iterdir()) == [file]


def test_the_same_for_programs(tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text(TEXT)
    impact = json.loads(lakehouse_command(tmp_path, "impact", "sales", "--file", "new.csv", "--json").stdout)
    assert (impact["applied"], impact["rows"], impact["out"]) == (False, {"2024-11-04": 1, "2024-11-05": 1}, {"malformed": 1})
    assert impact["days"] == ["2024-11-04", "2024-11-05"]
    assert [(period["series"], period["period"], period["outcome"]) for period in impact["periods"]] == [
        ("revenue", "2024-11-04", "published"),
        ("revenue", "2024-11-05", "published"),
        ("revenue_weekly", "2024-W45", "published"),
        ("revenue_monthly", "2024-11", "published"),
    ]
    days = lakehouse_command(tmp_path, "impact", "sales", "--start-date", "2024-11-04", "--end-date", "2024-11-05", "--json")
    assert json.loads(days.stdout)["periods"] == impact["periods"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "pass one of --file, --key, --decision and --start-date"),
        (("--key", "1", "--file", "x"), 2, "pass one of --file, --key, --decision and --start-date"),
        (("--start-date", "2024-11-05", "--end-date", "2024-11-04"), 2, "--end-date needs a --start-date"),
        (("--key", "1", "--end-date", "2024-11-04"), 2, "--end-date needs a --start-date"),
        (("--file", "x.csv"), 1, "x.csv is unknown: there is no such local file, none in"),
        (("--key", "1"), 1, "no well-formed row of bronze/sales has the key '1'"),
    ],
)
def test_impact_that_cannot_be_computed_is_reported(tmp_path: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    done = lakehouse_command(tmp_path, "impact", "sales", *arguments)
    assert done.returncode == code
    assert message in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
