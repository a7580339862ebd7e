"""Make ``deployment.tar.gz`` with the code of an earlier commit.

Run it once per format to be kept, with a checkout of that commit and an environment in which its dependencies are installed:

    git worktree add ../earlier <commit>
    python lakehouse_tests/support/earlier_deployment/make.py ../earlier

It runs the commands of that checkout, so nothing of today's code takes part. It starts Spark twice, about a minute in all.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

SOURCE = """\
dataset: orders
owner: shop
primary_key: [order_id]
source: {landing: "arrival_date={arrival_date}*.csv", format: csv, start_date: 2024-03-01}
clocks: {event: ordered_at, arrival: received_at}
changes: {op: op}
lateness: {expected: P1D, watermark: P5D, beyond: quarantine}
model:
  fields:
    - {name: order_id, type: string, required: true}
    - {name: store, type: string, required: true}
    - {name: amount, type: "decimal(12,2)"}
"""
METRIC = """\
metric: turnover
source: orders
owner: shop
measures:
  - {name: turnover, sql: sum(amount), type: "decimal(18,2)", additive: true}
  - {name: orders, sql: count(*), type: long, additive: true}
publication: {final_after: 6, after_close: adjust, rollups: [week]}
checks:
  change: [{measure: turnover, absolute: "50"}]
"""
HEADER = "order_id,store,amount,ordered_at,received_at,op\n"
#: The orders of each arrival day of March 2024: id, store, amount, event day, kind of change.
ARRIVALS: dict[int, list[tuple[str, str, str, int, str]]] = {
    5: [("o1", "north", "10.00", 4, "insert"), ("o2", "south", "20.00", 4, "insert"), ("o3", "north", "5.00", 5, "insert")],
    6: [
        ("o4", "north", "8.00", 6, "insert"),
        ("o5", "south", "2.50", 4, "insert"),  # late, within the watermark
        ("o1", "north", "12.00", 4, "correct"),
    ],
    7: [("o3", "north", "5.00", 5, "delete"), ("o6", "south", "7.00", 7, "insert"), ("o0", "south", "many", 7, "insert")],
    11: [
        ("o7", "north", "9.50", 4, "insert"),  # beyond the watermark: accepted, and the day is closed by then
        ("o8", "south", "3.00", 5, "insert"),  # beyond the watermark: rejected
        ("o9", "north", "1.00", 5, "insert"),  # beyond the watermark: left open
        ("o10", "south", "4.00", 11, "insert"),
        ("o11", "south", "60.00", 8, "insert"),  # late, and the first of its day
        ("o12", "north", "55.00", 7, "insert"),  # moves a number by more than the check allows: held
    ],
}


def line(arrival: int, order: tuple[str, str, str, int, str]) -> str:
    """One line of a landing file."""
    order_id, store, amount, event, op = order
    return f"{order_id},{store},{amount},2024-03-{event:02}T12:00:00Z,2024-03-{arrival:02}T18:00:00Z,{op}\n"


def make(checkout: Path, folder: Path) -> None:
    """Let the code of ``checkout`` fill an empty ``folder``."""
    environment = os.environ | {
        "PYTHONPATH": str(checkout.resolve()),
        "LAKEHOUSE_ROOT": "lake",
        "LAKEHOUSE_LANDING": "landing",
        "LAKEHOUSE_BUNDLED_CONTRACTS": "false",
    }

    def lakehouse(*arguments: str, **more: str) -> str:
        command = [sys.executable, "-m", "lakehouse", *arguments]
        return subprocess.run(command, cwd=folder, env=environment | more, check=True, stdout=subprocess.PIPE, text=True).stdout

    for name, text in (("orders", SOURCE), ("turnover", METRIC)):
        path = folder / "contracts" / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (folder / "landing").mkdir()
    for day, orders in ARRIVALS.items():
        content = HEADER + "".join(line(day, order) for order in orders)
        (folder / "landing" / f"arrival_date=2024-03-{day:02}.csv").write_text(content)
    lakehouse("replay", "orders")
    who = ("--by", "anna", "--reason")
    now = "2024-03-12T09:00:00Z"
    lakehouse("quarantine", "reject", "orders", *who, "a test order", "--key", "o8", "--no-restate", LAKEHOUSE_NOW=now)
    lakehouse("quarantine", "accept", "orders", *who, "seen the receipt", "--key", "o7", LAKEHOUSE_NOW=now)
    commit = subprocess.run(["git", "-C", checkout, "rev-parse", "HEAD"], check=True, stdout=subprocess.PIPE, text=True).stdout
    (folder / "commit.txt").write_text(commit)


def pack(folder: Path, archive: Path) -> None:
    """Pack a deployment without checksums of Hadoop and without the name of the folder that it was made in.

    Tables address their files relatively; only the description of a commit names the folder of the table.
    """
    for log in folder.glob("lake/*/*/_delta_log/*.json"):
        log.write_text(log.read_text().replace(folder.resolve().as_uri(), "file:///deployment"))

    def kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if member.name.endswith(".crc"):
            return None
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(archive, "w:gz", compresslevel=9) as packed:
        for name in ("commit.txt", "contracts", "lake", "landing"):
            packed.add(folder / name, name, filter=kept)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        make(Path(sys.argv[1]), Path(made))
        pack(Path(made), Path(__file__).with_name("deployment.tar.gz"))
