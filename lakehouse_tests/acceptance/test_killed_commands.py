"""Commands that write, killed behind its first commit, one in the middle and its last one, with what ``init`` makes.

No daemon runs. The same command is given again, and then the next one: the lake ends as the one of a command that was not killed.
"""

from __future__ import annotations

import shutil
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
from deltalake import DeltaTable

from lakehouse.lake import Table
from lakehouse_tests.support.forked_cli import lakehouse_command
from lakehouse_tests.support.killed_command import commits_of, stopped_command
from lakehouse_tests.support.spark_server import machine

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.spark]

ORDERS = """\
dataset: orders
primary_key: order_id
source: {format: csv}
model:
  fields:
    - {name: order_id, type: string, required: true}
    - {name: store, type: string}
    - {name: amount, type: "decimal(12,2)"}
clocks: {event: at, timezone: UTC, watermark: {strategy: bounded, max_lateness: P30D}}
changes: {op: op}
quality: {row_rules: [{name: amount_is_positive, sql: amount > 0, category: validity}]}
lateness: {expected: P1D}
"""
REVENUE = """\
metric: revenue
source: orders
measures:
  - {name: amount, sql: sum(amount), type: "decimal(18,2)", additive: true}
publication: {rollups: [week]}
"""
HEADER = "order_id,store,at,amount,op\n"
FILES = {
    "first.csv": "a,north,2024-11-04T09:00:00Z,100.00,insert\nb,south,2024-11-05T09:00:00Z,20.00,insert\n"
    "z,south,2024-11-05T10:00:00Z,-3.00,insert\n",
    "second.csv": "a,north,2024-11-04T09:00:00Z,110.00,correct\nc,south,2024-11-06T09:00:00Z,7.00,insert\n",
    "third.csv": "c,south,2024-11-06T09:00:00Z,9.00,correct\nd,north,2024-11-04T10:00:00Z,1.00,insert\n",
}
WHO = ("--by", "anna", "--reason", "to be sure")


@dataclass(frozen=True)
class Command:
    """A command that writes.

    :param before: commands that make something for it to work on; they come after ``contracts`` and ``landing``.
    :param landing: a file that lies in landing before it.
    :param again: the exit codes of the same command once more: some say that it was done.
    :param contracts: what is written over the contracts before it, by name.
    :param lost: the table whose newest data file is missing.
    :param day: when it is given.
    :param leaves_work: whether longer periods follow with the next run, and not with the command.
    """

    arguments: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    landing: str = ""
    again: frozenset[int] = field(default=frozenset({0}))
    contracts: dict[str, str] = field(default_factory=dict)
    lost: str = ""
    day: str = "2024-11-07"
    leaves_work: bool = False

    def __str__(self) -> str:
        words = " ".join(word for word in self.arguments[:2] if not word.startswith("-"))
        return f"{words} {self.lost}".strip()


DAYS = ("2024-11-04", "2024-11-06")
STAGED = ("stage", "create", "feed", "orders", *WHO, "--file", "third.csv")
TAKEN = ("stage", "promote", "feed", *WHO, "--sign-off", "seen")
REVERTED = ("gold", "revert", "revenue", "2024-11-04", "--to", "r1", *WHO, "--restate")
MANY = frozenset({0, 1})
LATE = ("run", "orders", "third.csv")
ADMITTED = ("lateness", "admit", "punctual", "--all", *WHO)
PLANNED = ("backfill", "plan", "orders", "--start-date", DAYS[0], "--end-date", DAYS[1], "--write-mode", "overwrite", *WHO)
#: Nine o'clock is the evening before.
IN_HONOLULU = ORDERS.replace("timezone: UTC", "timezone: Pacific/Honolulu")
READ = ("stage", "promote", "read", *WHO, "--sign-off", "seen")
READ_AGAIN = ("reparse", "orders", "--stage", "read", *WHO)
HELD = ("revenue", DAYS[1], "--revision", "r2", *WHO)
CHECKED = {"revenue": REVENUE + "checks: {change: [{measure: amount, percent: 5, severity: error}]}\n"}
DOUBLED = REVENUE.replace("metric: revenue", "metric: revenue\ndataset_version: 2").replace("sum(amount)", "sum(amount * 2)")
UNDO = ("backfill", "undo", "newest", *WHO, "--restate")
PUNCTUAL = {
    "orders": ORDERS.replace("P30D", "PT12H"),
    "punctual": REVENUE.replace("metric: revenue", "metric: punctual")
    + "late_events: {allowed_lateness: PT1H, action: side_output}\n",
}
COMMANDS = [
    Command(("run", "orders", "third.csv")),
    Command(("replay", "orders"), landing="third.csv"),
    Command(("rebuild", "orders", "--start-date", DAYS[0], "--end-date", DAYS[1], "--reason", "why")),
    Command(STAGED, again=MANY),
    Command(TAKEN, (STAGED,), again=MANY),
    Command(("stage", "undo", "feed", *WHO, "--restate"), (STAGED, TAKEN), again=MANY),
    Command(REVERTED, again=MANY),
    Command(("lateness", "apply", "orders", *WHO, "--watermark", "P9D"), again=MANY),
    Command(("snapshot", "create", "orders", "now", *WHO), again=MANY),
    Command(("quarantine", "accept", "orders", "--all", *WHO), again=MANY),
    Command(("quarantine", "reject", "orders", "--all", *WHO), again=MANY),
    Command(("redact", "orders", "--key", "a", "--fields", "store", *WHO)),
    Command(("correct", "orders", "b", "--set", "amount=21.00", *WHO, "--restate"), again=MANY),
    Command(("gold", "release", "revenue", "2024-11-04", *WHO, "--restate"), (REVERTED,), again=MANY),
    Command(("rollback", "revenue", "--to", "2024-11-07T09:30:00Z", *WHO, "--restate"), again=MANY),
    Command(("reparse", "orders", "--now", *WHO), contracts={"orders": IN_HONOLULU}),
    Command(READ, (READ_AGAIN,), again=MANY, contracts={"orders": IN_HONOLULU}),
    Command(PLANNED, landing="third.csv", leaves_work=True),
    Command(("backfill", "run", "newest", "--in-process"), (PLANNED,), landing="third.csv"),
    Command(UNDO, (PLANNED, ("backfill", "run", "newest")), landing="third.csv", again=MANY),
    Command(("gold", "close", "revenue", DAYS[0], *WHO), (("replay", "orders"),), day="2024-11-20", leaves_work=True),
    Command(("gold", "publish", *HELD), (LATE,), again=MANY, contracts=CHECKED, leaves_work=True),
    Command(("gold", "drop", *HELD), (LATE,), again=MANY, contracts=CHECKED),
    Command(("promote", "revenue", "v2", *WHO, "--restate"), (("replay", "orders"),), contracts={"doubled": DOUBLED}),
    Command(ADMITTED, (LATE,), contracts=PUNCTUAL),
    Command(("lateness", "withdraw", *ADMITTED[2:]), (LATE, ADMITTED), contracts=PUNCTUAL),
    Command(("repair",), lost="bronze/orders"),
    Command(("repair",), lost="silver/orders"),
    Command(("repair",), lost="gold/revenue"),
    Command(("repair",), lost="ops/orders_keys"),
]
IN_EACH_RUN = {"run orders", "redact orders"}
PROOF = (pytest.mark.merge, pytest.mark.proof)
CASES = [pytest.param(each, marks=pytest.mark.merge if f"{each}" in IN_EACH_RUN else PROOF, id=f"{each}") for each in COMMANDS]


@pytest.fixture(scope="module", autouse=True)
def _running_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Commands that start a Spark of their own are killed in ``test_sigkill`` and ``test_stopped_without_daemon``."""
    with machine(tmp_path_factory.mktemp("machine") / "host") as host, pytest.MonkeyPatch.context() as patched:
        assert host.start().returncode == 0
        for name, value in host.auto.items():
            patched.setenv(name, value)
        yield


@pytest.fixture(scope="module", name="template")
def _template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project after two deliveries, with a row that waits for a steward."""
    folder = tmp_path_factory.mktemp("project") / "shop"
    folder.mkdir()
    give(folder, "init", hour=8)
    shutil.rmtree(folder / "contracts")
    (folder / "contracts").mkdir()
    for name, text in (("orders.yaml", ORDERS), ("revenue.yaml", REVENUE)):
        (folder / "contracts" / name).write_text(text)
    for name, rows in FILES.items():
        (folder / name).write_text(HEADER + rows)
    give(folder, "run", "orders", "first.csv", hour=9)
    give(folder, "run", "orders", "second.csv", hour=10)
    return folder


def environment(folder: Path, hour: int, day: str = "2024-11-07") -> dict[str, str]:
    return {"DAGSTER_HOME": f"{folder}/dagster_home", "LAKEHOUSE_NOW": f"{day}T{hour:02}:00:00Z"}


def give(folder: Path, *arguments: str, hour: int, codes: frozenset[int] = frozenset({0}), day: str = "2024-11-07") -> str:
    done = lakehouse_command(folder, *arguments, **environment(folder, hour, day))
    text = f"{done.stdout}{done.stderr}"
    assert done.returncode in codes, text
    assert "Traceback" not in text
    return text


def prepared(template: Path, folder: Path, command: Command) -> Path:
    shutil.copytree(template, folder)
    for name, text in command.contracts.items():
        (folder / "contracts" / f"{name}.yaml").write_text(text)
    if command.landing:
        landing = folder / "lake" / "landing" / "orders"
        landing.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / command.landing, landing / "arrival_date=2024-11-07.csv")
    for step in command.before:
        give(folder, *step, hour=11, codes=MANY, day=command.day)
    if command.lost:
        files = [Path(unquote(file)) for file in DeltaTable(folder / "lake" / command.lost).file_uris()]
        max(files, key=lambda file: file.stat().st_mtime).unlink()
    return folder


GOLD = ["revision", "is_latest", "state", "reason", "content", "amount", "adjustment"]
TABLES: list[tuple[str, list[str] | None]] = [
    ("bronze/orders", ["order_id", "store", "amount", "event_date", "malformed_reason", "line_number"]),
    ("bronze/orders_decisions", ["line_number", "verdict", "by"]),
    ("silver/orders", ["order_id", "store", "amount", "event_date", "line_number"]),
    ("silver/orders_quarantine", ["line_number", "quarantine_status"]),
    ("gold/revenue", ["event_date", *GOLD]),
    ("gold/revenue_weekly", ["period_start", *GOLD]),
    ("gold/revenue_v2", ["event_date", *GOLD]),
    ("gold/punctual", ["event_date", *GOLD]),
    ("gold/punctual_weekly", ["period_start", *GOLD]),
    ("bronze/orders_late_decisions", ["line_number", "counts", "by", "number"]),
    ("silver/orders_late", ["metric", "line_number", "counts", "action"]),
    ("ops/orders_dispositions", ["arrival_date", "disposition", "rows"]),
    ("ops/ingestions", ["source", "status", "rows"]),
    ("ops/late_arrival_audit", ["event_id", "action_type", "original_value", "new_value"]),
    ("ops/corrections", ["status"]),
    ("ops/stages", ["name", "event"]),
    ("ops/snapshots", ["name"]),
    ("ops/moves", ["metric", "kind", "to_version"]),
    ("ops/dropped", ["series", "revision", "by"]),
    ("ops/backfills", ["target", "reason"]),
]


def state(folder: Path) -> dict[str, Any]:
    """What readers and stewards see."""
    seen = {}
    for name, columns in TABLES:
        path = f"{folder}/lake/{name}"
        table = Table(path).open()
        known = [] if table is None else [item.name for item in table.schema().fields]
        rows = None if table is None else Table(path).read([column for column in columns or known if column in known])
        seen[name] = [] if rows is None else sorted(repr(row) for row in rows.to_pylist())
    return seen


@pytest.mark.merge
def test_a_command_that_is_told_to_end_begins_nothing_else(template: Path, tmp_path: Path) -> None:
    command = Command(("run", "orders", "third.csv"))
    folder = prepared(template, tmp_path / "stopped", command)
    commits, _ = commits_of(prepared(template, tmp_path / "whole", command), *command.arguments, **environment(folder, 12))
    place = commits - 4  # a number is being published
    stopped = stopped_command(folder, *command.arguments, commits=place, number=signal.SIGTERM, **environment(folder, 12))
    assert stopped.returncode == 1
    assert "was stopped at" in stopped.stderr
    assert "the same command goes on from there" in stopped.stderr
    assert "went on" not in stopped.stderr
    give(folder, *command.arguments, hour=12)
    assert state(folder) == state(tmp_path / "whole")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("command", CASES)
def test_the_same_command_after_a_kill_ends_as_without_it(
    template: Path, tmp_path: Path, command: Command, request: pytest.FixtureRequest
) -> None:
    begin = prepared(template, tmp_path / "begin", command)
    whole = shutil.copytree(begin, tmp_path / "whole")
    commits, done = commits_of(whole, *command.arguments, **environment(whole, 12, command.day))
    assert done.returncode == 0, done.stdout + done.stderr
    expected = state(whole)
    middle = (commits + 1) // 2
    places = {1, middle, commits} if request.node.get_closest_marker("proof") else {middle}
    for place in sorted(places):
        folder = shutil.copytree(begin, tmp_path / f"killed behind {place}")
        stopped = stopped_command(folder, *command.arguments, commits=place, **environment(folder, 12, command.day))
        assert stopped.returncode == -signal.SIGKILL
        text = give(folder, *command.arguments, hour=12, codes=command.again, day=command.day)
        assert state(folder) == expected, f"killed behind commit {place} of {commits}: {text}"
    if command.leaves_work:
        give(whole, "replay", "orders", hour=13, day=command.day)
        expected = state(whole)
    give(folder, "replay", "orders", hour=13, day=command.day)
    assert state(folder) == expected, "nothing was left to do"
