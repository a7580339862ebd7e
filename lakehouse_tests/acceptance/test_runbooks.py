"""The runbooks of the documentation, executed as they are written: their own commands, one after another, in one shell.

They share the server of ``lakehouse admin spark start``, as somebody has it who runs many commands.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakehouse.lake import Table
from lakehouse_tests.support.deployment import CHECKOUT
from lakehouse_tests.support.sales_files import FIRST_SALES, LATE_SALES, SALES_HEADER
from lakehouse_tests.support.spark_server import Machine, machine

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.spark, pytest.mark.merge, pytest.mark.proof]

FRESH = SALES_HEADER + "s24,north,2024-11-02T18:00:00Z,7.00,2,2024-11-08T06:00:00Z,insert,0,\n"
#: The line of the correction that moves s41 to another day.
WRONG = f"{hashlib.sha256(LATE_SALES.encode()).hexdigest()[:16]}:3"


def runbooks() -> dict[str, str]:
    """The commands of each section that has some."""
    text = (CHECKOUT / "docs" / "runbooks.md").read_text()
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    blocks = {part.partition("\n")[0]: re.findall(r"^```bash\n(.*?)^```", part, re.MULTILINE | re.DOTALL) for part in sections}
    return {title: "".join(found) for title, found in blocks.items() if found}


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> Iterator[Machine]:
    with machine(tmp_path / "machine") as host:
        assert host.start().returncode == 0
        yield host


@pytest.mark.timeout(1500)
def test_each_runbook_does_what_it_says(tmp_path: Path, host: Machine) -> None:
    landing = tmp_path / "lakehouse_data" / "landing" / "sales"
    landing.mkdir(parents=True)
    (tmp_path / "dagster_home").mkdir()
    (tmp_path / "late.csv").write_text(FRESH)
    for day, text in ((5, FIRST_SALES), (6, LATE_SALES)):
        (landing / f"arrival_date=2024-11-0{day}.csv").write_text(text)
    books = runbooks()
    assert list(books) == [
        "A late file",
        "A partner's re-send",
        "A wrong correction",
        "A bug replay",
        "A stuck backfill",
        "A lost disk",
    ]
    walk(tmp_path, host, "lakehouse replay sales")
    assert revenue(tmp_path) == numbers(25, 20, 30, 10)

    output = walk(tmp_path, host, books["A late file"])
    assert revenue(tmp_path) == numbers(25, 27, 30, 10)
    assert "2024-11-02" in output
    assert "r2" in output

    walk(tmp_path, host, books["A partner's re-send"])
    assert revenue(tmp_path) == numbers(25, 27, 30, 10)

    output = walk(tmp_path, host, books["A wrong correction"].replace("ROW", WRONG))
    assert WRONG in output
    assert revenue(tmp_path) == numbers(25, 27, 20, 20)

    walk(tmp_path, host, books["A bug replay"])
    output = walk(tmp_path, host, books["A stuck backfill"])
    assert "is cancelled" in output
    assert "finished" in output
    assert revenue(tmp_path) == numbers(25, 27, 20, 20)

    revisions = len(gold(tmp_path))
    output = walk(tmp_path, host, books["A lost disk"])
    assert revenue(tmp_path) == numbers(25, 27, 20, 20)
    assert len(gold(tmp_path)) == revisions, "what comes out equal is no new revision"


def walk(folder: Path, host: Machine, commands: str) -> str:
    """Run the commands as somebody pastes them; the first that fails ends it."""
    own = Path(sys.executable).parent
    environment = os.environ | {
        "PATH": f"{own}{os.pathsep}{os.environ['PATH']}",
        "DAGSTER_HOME": str(folder / "dagster_home"),
        "COLUMNS": "200",
        **host.auto,
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def gold(folder: Path) -> list[dict[str, object]]:
    found = Table(str(folder / "lakehouse_data" / "gold" / "revenue")).read(["event_date", "revenue", "is_latest"])
    return [] if found is None else found.to_pylist()


def revenue(folder: Path) -> dict[object, object]:
    return {row["event_date"]: row["revenue"] for row in gold(folder) if row["is_latest"]}


def numbers(*values: int) -> dict[object, object]:
    """Of the first days of November."""
    return {date(2024, 11, day): Decimal(f"{value}.00") for day, value in enumerate(values, start=1)}
