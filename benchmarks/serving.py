"""What the metrics API gives under load: requests a second, p99, how soon a publication is seen, and its memory.

    python benchmarks/serving.py [--periods 1000] [--revisions 50] [--clients 50] [--requests 100000]

Makes a gold table of so many days with so many revisions each (one day is published by the product and copied), and the key log
of a source whose rows come late; starts ``lakehouse serve`` on it, and asks for numbers over as many connections as there are
clients: of random days, seven of ten times the newest, else the final one, a revision, or as of a time. Halfway through, a
hundred days are published in one commit. Every answer is looked at: a client that has seen the publication never sees the
state before it again, and nobody sees the old one a second after the commit. The clients run in a process of their own, on the
same cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakehouse import locations
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.delta import partition_writer
from lakehouse.gold.numbers.lifecycle import PublishAction, RevisionReason, State
from lakehouse.gold.publication import revisions
from lakehouse.gold.publication.candidates import Draft
from lakehouse.gold.publication.write_audit_publish import Run, read, signature
from lakehouse.lake import Lake, table_io
from lakehouse.ledger import key_log
from lakehouse.settings import Settings

FIRST = date(2022, 1, 1)
PUBLISHED = 100  # days that are published anew in the middle
MARK = 10**9  # what the publication in the middle adds to a number
LATEST = 0.7  # the share of requests for the newest number
OFTEN = 0.5  # around the publication, the share of requests for days that it moves
SOURCE = """
dataset: events
primary_key: [id]
model: {fields: [{name: id, type: string}, {name: amount, type: long}]}
clocks: {event: at, arrival: seen}
"""
METRIC = """
metric: takings
source: events
measures: [{name: takings, sql: sum(amount), type: long, additive: true}]
"""


def main() -> None:
    """Fill, serve, ask."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--periods", type=int, default=1000)
    parser.add_argument("--revisions", type=int, default=50)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--requests", type=int, default=100_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        table = Table(Path(scratch), arguments.periods, arguments.revisions)
        started = time.perf_counter()
        table.fill()
        print(f"filled in {time.perf_counter() - started:.1f} s", file=sys.stderr)
        with table.served() as (process, port):
            figures = asyncio.run(Load(table, port, arguments.clients, arguments.requests, process.pid).run())
    print(json.dumps(figures, indent=1))


class Table:
    """A gold table of many days and revisions, and a server on it."""

    def __init__(self, root: Path, periods: int, revisions_: int) -> None:
        self.root, self.days = root, [FIRST + timedelta(days=offset) for offset in range(periods)]
        self.revisions = revisions_
        contracts = root / "contracts"
        contracts.mkdir()
        (contracts / "source.yaml").write_text(SOURCE)
        (contracts / "metric.yaml").write_text(METRIC)
        self.lake = Lake(Settings(root=str(root / "lake")))
        self.series = Series(MetricContract.model_validate(yaml_of(METRIC)))
        self.contracts = contracts

    def fill(self) -> None:
        """One day through the product, the others as copies of it, in one commit."""
        start = self.days[0]
        for number in range(1, self.revisions + 1):
            self.publish([start], number)
        self.filled = datetime.now(timezone.utc)
        table = locations.gold(self.lake, self.series).open()
        one_day = table_io.read_version(table)
        parts = []
        for day in self.days:
            rows = one_day
            names = [f"takings_v{day}.r{revision}" for revision in rows["revision"].to_pylist()]
            for name, values in (("event_date", [day] * len(rows)), ("period", [f"{day}"] * len(rows)), ("version_name", names)):
                place = rows.column_names.index(name)
                rows = rows.set_column(place, name, pa.array(values, rows.schema.field(name).type))
            parts.append(rows)
        partition_writer.replace(locations.gold(self.lake, self.series).snapshot(), pa.concat_tables(parts), self.days)
        self._fill_key_log()

    def publish(self, days: list[date], value: int) -> None:
        """Publish a number for some days, in one commit."""
        before = read(self.lake, self.series, days)
        rows = pa.table({"takings": pa.array([value], pa.int64()), "row_count": pa.array([1], pa.int64())})
        drafts = [
            Draft(
                day,
                rows,
                State.FINAL,
                PublishAction.REVISION,
                RevisionReason.LATE_DATA if before.published_states else RevisionReason.INITIAL,
            )
            for day in days
        ]
        signed = signature(self.lake, self.series, Run("run"), {})
        revisions.publish(self.lake, self.series, before.table, before.existing, drafts, signed)

    def _fill_key_log(self) -> None:
        rows = []
        chance = random.Random(1)
        for day in self.days[-200:]:
            for number in range(50):
                event = datetime.combine(day, datetime.min.time(), timezone.utc) + timedelta(hours=chance.uniform(0, 24))
                seen = event + timedelta(hours=chance.expovariate(1 / 8))
                rows.append(
                    dict.fromkeys(key_log.SCHEMA.names)
                    | {"record_key": f"{day}:{number}", "kind": "insert", "event_date": day, "source_sequence": 0}
                    | {"arrival_ts": seen, "ingestion_id": "x", "line_number": number, "arrival_date": seen.date()}
                    | {"standing": "admitted", "beyond": False}
                )
        claims = pa.Table.from_pylist(rows, schema=key_log.SCHEMA)
        key_log.append(self.lake, "events", ["x"], {row["arrival_date"] for row in rows}, lambda: [claims])

    def served(self) -> Server:
        """A server on the table."""
        return Server(self)


class Server:
    """``lakehouse serve`` in a process of its own."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __enter__(self) -> tuple[subprocess.Popen[bytes], int]:
        port = 8777
        environment = os.environ | {
            "LAKEHOUSE_ROOT": self._table.lake.root,
            "LAKEHOUSE_CONTRACTS": str(self._table.contracts),
            "LAKEHOUSE_BUNDLED_CONTRACTS": "false",
        }
        command = [sys.executable, "-m", "lakehouse", "serve", "--port", f"{port}", "--rate", "100000"]
        self._process = subprocess.Popen(command, env=environment)
        return self._process, port

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)


@dataclass
class Load:
    """Clients that ask, each over one connection, and what they saw."""

    table: Table
    port: int
    clients: int
    requests: int
    pid: int
    seconds: list[float] = field(default_factory=list)
    sent: int = 0
    seen_old: list[float] = field(default_factory=list)
    saw_new: int = 0
    mistakes: list[str] = field(default_factory=list)
    committed: float | None = None
    memory: list[tuple[int, int]] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    halfway: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> dict[str, Any]:
        await self._ready()
        self.memory.append((0, resident(self.pid)))
        started = time.monotonic()
        clients = [asyncio.create_task(self._client(number)) for number in range(self.clients)]
        publisher = asyncio.create_task(self._publish())
        await asyncio.gather(*clients, publisher)
        taken = time.monotonic() - started
        self.memory.append((self.sent, resident(self.pid)))
        quantiles = statistics.quantiles(self.seconds, n=1000)
        late = [when - (self.committed or 0) for when in self.seen_old if self.committed and when > self.committed]
        return {
            "requests": self.sent,
            "clients": self.clients,
            "requests a second": round(self.sent / taken),
            "milliseconds": {name: round(quantiles[at] * 1000, 1) for name, at in (("p50", 499), ("p95", 949), ("p99", 989))}
            | {"max": round(max(self.seconds) * 1000, 1)},
            "publication": {
                "days in one commit": PUBLISHED,
                "last old answer was asked for, seconds after the commit": round(max(late, default=0.0), 3),
                "clients that saw it": self.saw_new,
            },
            "mistakes": self.mistakes[:5],
            "answers by status": self.statuses,
            "resident MB by requests": {f"{sent:,}": kilobytes // 1024 for sent, kilobytes in self.memory},
        }

    async def _ready(self) -> None:
        for _ in range(300):
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                for path in ("/health", f"/metrics/takings?window={self.table.days[0]}"):
                    await ask(reader, writer, path)
                writer.close()
                return
            await asyncio.sleep(0.2)
        sys.exit("the server does not answer")

    async def _publish(self) -> None:
        await self.halfway.wait()
        days = self.table.days[-PUBLISHED:]
        self.committed = await asyncio.to_thread(self._publish_now, days)

    def _publish_now(self, days: list[date]) -> float:
        self.table.publish(days, MARK)
        return time.monotonic()

    async def _client(self, number: int) -> None:
        chance = random.Random(number)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        seen_new = False
        days, moved = self.table.days, set(self.table.days[-PUBLISHED:])
        while self.sent < self.requests:
            self.sent += 1
            if self.sent >= self.requests // 2:
                self.halfway.set()
            if self.sent % (self.requests // 10) == 0:
                self.memory.append((self.sent, resident(self.pid)))
            around = self.requests // 2 - 2000 < self.sent < self.requests // 2 + 20_000
            day = chance.choice(days[-PUBLISHED:] if around and chance.random() < OFTEN else days)
            kind = chance.random()
            version = "latest"
            if kind > LATEST:
                moment = self.table.filled + timedelta(seconds=chance.uniform(1, 3600))
                version = chance.choice(["final", f"r{chance.randint(1, self.table.revisions)}", f"{moment:%Y-%m-%dT%H:%M:%SZ}"])
            began = time.monotonic()
            status, body = await ask(reader, writer, f"/metrics/takings?window={day}&version={version}")
            self.seconds.append(time.monotonic() - began)
            self.statuses[status] += 1
            if version != "latest" or day not in moved:
                continue
            value = json.loads(body)["result"][0]["takings"]
            if value == MARK and not seen_new:
                seen_new = True
                self.saw_new += 1
            elif value != MARK:
                self.seen_old.append(began)
                if seen_new:
                    self.mistakes.append(f"client {number} saw {value} of {day} behind {MARK}")
        writer.close()


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> tuple[int, bytes]:
    """One request over a connection that stays open."""
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin-1").lower().split("\r\n")
    length = next((int(line.partition(":")[2]) for line in lines if line.startswith("content-length:")), 0)
    return int(lines[0].split()[1]), await reader.readexactly(length)


def resident(pid: int) -> int:
    """Kilobytes of memory that a process holds."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def yaml_of(text: str) -> dict[str, Any]:
    """A contract as values."""
    import yaml  # noqa: PLC0415

    content: dict[str, Any] = yaml.safe_load(text)
    return content


if __name__ == "__main__":
    main()
