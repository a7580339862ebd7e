"""A shop's lake with nearly every table, copies of it as each delivery left it, and ways to take commits from its tables.

The lake is driven by the program's own commands in this process, so that a test sees what a person sees: text and exit code.
"""

from __future__ import annotations

import io
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.cli import program as cli
from lakehouse.lake import Table
from lakehouse.lake.table_io import DamagedLogError
from lakehouse.ledger import log_table

if TYPE_CHECKING:
    from collections.abc import Mapping

SALES = """
dataset: sales
primary_key: [sale]
source: {landing: "arrival_date={arrival_date}*.csv", format: csv, start_date: 2024-11-01}
clocks: {event: sold_at, arrival: received_at, watermark: {strategy: bounded, max_lateness: PT12H}}
changes: {op: op, corrects_event_id: corrects}
lateness: {expected: P1D, watermark: P3D, beyond: quarantine}
model:
  fields:
    - {name: sale, type: string, required: true}
    - {name: customer, type: string, required: true}
    - {name: amount, type: "decimal(12,2)", required: true}
    - {name: remark, type: string}
"""
CUSTOMERS = """
dataset: customers
kind: dimension
primary_key: [customer]
source: {landing: "arrival_date={arrival_date}*.csv", format: csv, start_date: 2024-11-01}
clocks: {event: changed_at, arrival: received_at}
model: {fields: [{name: customer, type: string}, {name: tier, type: string}]}
dimension: {buckets: 2}
"""
CLICKS = """
dataset: clicks
primary_key: [click]
source: {landing: "arrival_date={arrival_date}*.csv", format: csv, start_date: 2024-11-01}
clocks: {event: clicked_at, arrival: received_at}
materialization: {reprocess_policy: append}
model: {fields: [{name: click, type: string}, {name: amount, type: "decimal(12,2)"}]}
"""
_MEASURES = 'measures: [{name: total, sql: sum(amount), type: "decimal(18,2)", additive: true}]\n'
CONTRACTS = {
    "sales": SALES,
    "customers": CUSTOMERS,
    "clicks": CLICKS,
    "clicked": f"metric: clicked\nsource: clicks\n{_MEASURES}publication: {{final_after: 9}}\n",
    "revenue": f"metric: revenue\nsource: sales\n{_MEASURES}"
    "publication: {final_after: 3, after_close: adjust, rollups: [week]}\n",
    "by_tier": f"metric: by_tier\nsource: sales\ngrain: [tier]\n{_MEASURES}"
    "joins: [{dimension: customers, on: customer, columns: [tier]}]\npublication: {final_after: 9}\n",
    "punctual": f"metric: punctual\nsource: sales\n{_MEASURES}"
    "late_events: {allowed_lateness: PT1H, action: side_output}\npublication: {final_after: 9}\n",
    "share": 'metric: share\nfrom: [revenue]\nmeasures: [{name: half, sql: revenue.total / 2, type: "decimal(18,4)"}]\n'
    "publication: {final_after: 9}\n",
}
SALE = "sale,customer,amount,remark,sold_at,received_at,op,corrects"
CLICK = "click,amount,clicked_at,received_at"
CUSTOMER = "customer,tier,changed_at,received_at"
WHO = ("--by", "anna", "--reason", "to be sure")


def _sale(name: str, sold: str, received: str, amount: str, op: str = "insert", of: str = "") -> str:
    days = [f"2024-11-{int(day):02}T{hour}:00:00Z" for day, hour in (when.split("T") for when in (sold, received))]
    return ",".join([name, f"c{len(name)}", amount, f"of {name}", *days, op, of])


@dataclass(frozen=True)
class Step:
    """A command at a time; with ``lines`` it is ``run`` of a source with a file."""

    now: str
    command: tuple[str, ...]
    lines: tuple[str, ...] = ()


#: What happens before a table is damaged; the lake is copied before each of the last three.
BEFORE = [
    Step(
        "04T12",
        ("run", "clicks"),
        (CLICK, "x,5.00,2024-11-04T09:00:00Z,2024-11-04T11:00:00Z", "y,7.00,2024-11-04T10:00:00Z,2024-11-04T11:00:00Z"),
    ),
    Step("04T12", ("run", "customers"), (CUSTOMER, "c1,silver,2024-11-01T00:00:00Z,2024-11-04T11:00:00Z")),
    Step(
        "04T12",
        ("run", "sales"),
        (SALE, _sale("a", "4T09", "4T11", "10.00"), _sale("b", "4T10", "4T11", "20.00"), _sale("o", "3T09", "3T11", "1.00")),
    ),
    Step("05T23", ("run", "sales"), (SALE, _sale("d", "5T09", "5T10", "7.00"), _sale("late", "4T16", "5T20", "3.00"))),
    Step(
        "06T23",
        ("run", "sales"),
        (SALE, _sale("e", "6T09", "6T10", "8.00"), _sale("a2", "4T09", "6T22", "12.00", "correct", "a")),
    ),
    Step("08T22", ("run", "customers"), (CUSTOMER, "c1,gold,2024-11-05T00:00:00Z,2024-11-08T11:00:00Z")),
    Step(
        "08T23",
        ("run", "sales"),
        (SALE, _sale("f", "8T09", "8T10", "9.00"), _sale("w", "4T12", "8T18", "2.00"), _sale("open", "3T12", "8T18", "3.00")),
    ),
    Step("09T01", ("gold", "revert", "revenue", "2024-11-05", "--to", "r1", *WHO)),
    Step(
        "09T02",
        ("run", "clicks"),
        (CLICK, "x,6.00,2024-11-04T09:00:00Z,2024-11-08T20:00:00Z", "z,2.00,2024-11-08T09:00:00Z,2024-11-08T20:00:00Z"),
    ),
    Step("09T02", ("quarantine", "accept", "sales", *WHO)),
    Step("09T03", ("redact", "sales", "--key", "b", "--fields", "remark", *WHO)),
    Step("09T04", ("correct", "sales", "f", "--set", "amount=9.50", *WHO)),
    Step("09T05", ("snapshot", "create", "sales", "then", *WHO)),
    Step(
        "09T23",
        ("run", "sales"),
        (SALE, _sale("g", "9T09", "9T10", "6.00"), _sale("b2", "4T10", "9T20", "25.00", "correct", "b")),
    ),
]
#: What a person gives after the damage.
NEXT = {
    "tier": Step("10T22", ("run", "customers"), (CUSTOMER, "c1,bronze,2024-11-07T00:00:00Z,2024-11-10T11:00:00Z")),
    "run": Step(
        "10T23",
        ("run", "sales"),
        (SALE, _sale("h", "10T09", "10T10", "4.00"), _sale("e2", "6T09", "10T20", "8.80", "correct", "e")),
    ),
    "clicks": Step(
        "10T23",
        ("run", "clicks"),
        (CLICK, "y,9.00,2024-11-04T10:00:00Z,2024-11-10T20:00:00Z", "v,3.00,2024-11-10T09:00:00Z,2024-11-10T20:00:00Z"),
    ),
    "replay": Step("11T01", ("replay", "sales")),
    "rebuild": Step(
        "11T02", ("rebuild", "sales", "--start-date", "2024-11-01", "--end-date", "2024-11-12", "--reason", "to be sure")
    ),
    "show": Step("11T03", ("gold", "show", "revenue", "2024-11-04")),
}


@dataclass(frozen=True)
class Printed:
    """What a command printed, and its exit code."""

    code: int
    text: str


@dataclass
class DamagedLake:
    """A lake in a folder, and the environment of its commands."""

    folder: Path
    environment: Mapping[str, str]

    @property
    def root(self) -> Path:
        return self.folder / "lake"

    def give(self, step: Step) -> Printed:
        """Run the program in this process."""
        environment = {
            "LAKEHOUSE_ROOT": f"{self.root}",
            "LAKEHOUSE_CONTRACTS": f"{self.folder / 'contracts'}",
            "LAKEHOUSE_BUNDLED_CONTRACTS": "false",
            "LAKEHOUSE_SPARK_PROFILE": "large",
            "LAKEHOUSE_NOW": f"2024-11-{step.now}:00:00Z",
            "DAGSTER_HOME": f"{self.folder / 'dagster'}",
            "COLUMNS": "250",
            **self.environment,
        }
        arguments = list(step.command)
        if step.lines:
            file = self.folder / "files" / f"{step.command[1]}_{step.now}.csv"
            file.write_text("\n".join(step.lines) + "\n")
            arguments.append(f"{file}")
        if step.command[0] == "quarantine":
            arguments.append(self.waiting_row())
        log_table.forget()  # as the process of a command
        text = io.StringIO()
        with pytest.MonkeyPatch.context() as patched, redirect_stdout(text), redirect_stderr(text):
            for name, value in environment.items():
                patched.setenv(name, value)
            patched.setattr(sys, "argv", ["lakehouse", *arguments])
            try:
                cli.main()
                code = 0
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
        return Printed(code, text.getvalue())

    def waiting_row(self) -> str:
        """The row that is accepted; another one stays open, so that its day must not become final."""
        path, columns = f"{self.root}/silver/sales_quarantine", ["ingestion_id", "line_number"]
        [row] = Table(path).read(columns, {"record_key": ["w"]}).to_pylist()
        return f"{row['ingestion_id']}:{row['line_number']}"

    def copied(self, folder: Path) -> DamagedLake:
        shutil.copytree(self.folder, folder)
        return DamagedLake(folder, self.environment)

    def tables(self) -> list[str]:
        """Every table of the lake, by layer and name."""
        return sorted(f"{path.parent.parent.name}/{path.parent.name}" for path in self.root.glob("*/*/_delta_log"))

    def numbers(self) -> dict[str, Any]:
        """What readers see: by metric and period the value and the version."""
        seen: dict[str, Any] = {}
        for name in ("revenue", "revenue_weekly", "by_tier", "punctual", "share", "clicked"):
            path = f"{self.root}/gold/{name}"
            table = Table(path).open()
            columns = [] if table is None else [item.name for item in table.schema().fields]
            wanted = ["period", "tier", "total", "half", "adjustment", "state", "version_name"]
            read = Table(path).read([column for column in wanted if column in columns], {"is_latest": [True]})
            for row in [] if read is None else read.to_pylist():
                seen[f"{name} {row['period']} {row.get('tier')}"] = [f"{value}" for key, value in row.items() if key != "period"]
        return seen

    def readable_numbers(self) -> dict[str, Any]:
        """The same, without the numbers of a table that cannot be read."""
        try:
            return self.numbers()
        except DamagedLogError:
            return {}

    def silver(self) -> list[str]:
        rows = Table(f"{self.root}/silver/sales").read(["sale", "amount", "remark", "event_date"])
        return [] if rows is None else sorted(f"{row}" for row in rows.to_pylist())


def build(folder: Path, environment: Mapping[str, str]) -> DamagedLake:
    """The lake before any damage; ``copies/0`` is the oldest copy, ``copies/2`` the newest."""
    for name in ("contracts", "dagster", "files", "copies"):
        (folder / name).mkdir(parents=True)
    (folder / "dagster" / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    for name, text in CONTRACTS.items():
        (folder / "contracts" / f"{name}.yaml").write_text(text)
    sample = DamagedLake(folder, environment)
    for number, step in enumerate(BEFORE):
        if number in COPIED:
            shutil.copytree(sample.root, folder / "copies" / f"{COPIED.index(number)}")
        printed = sample.give(step)
        assert "Traceback" not in printed.text, printed.text
        assert printed.code in {0, 1}, printed.text
    return sample


#: The lake is copied before these steps.
COPIED = [5, 7, 13]
HOW = ["delete 1", "delete 2", "delete 3", "empty", "halve", "copy 2", "copy 1", "copy 0", "gone"]


def damage(sample: DamagedLake, table: str, how: str) -> None:
    """Take something from a table, as far as there is anything to take: entries of its log, the whole, or all since a copy."""
    path = sample.root / table
    entries = sorted(path.glob("_delta_log/*.json"))
    kind, _, number = how.partition(" ")
    copy = sample.folder / "copies" / number / table
    if kind == "delete":
        for entry in entries[-int(number) :]:
            entry.unlink()
    elif kind == "gone":
        shutil.rmtree(path, ignore_errors=True)
    elif kind == "copy":
        if copy.exists():
            shutil.rmtree(path, ignore_errors=True)
            shutil.copytree(copy, path)
    elif entries:
        size = 0 if kind == "empty" else entries[-1].stat().st_size // 2
        entries[-1].write_bytes(entries[-1].read_bytes()[:size])
    if not [*path.glob("_delta_log/*.json")]:
        shutil.rmtree(path, ignore_errors=True)
