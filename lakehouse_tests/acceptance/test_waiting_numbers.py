"""A deployment in which things go wrong: its numbers wait and say why, people are notified, and it ends well without a click.

A source falls silent, a file is held, a row waits for a steward; the daemon is killed meanwhile. Once the file is mended and the
row decided, the number becomes final by itself.
"""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.lake import Table, table_io
from lakehouse_tests.support.cli import lakehouse_command
from lakehouse_tests.support.deployment import Deployment
from lakehouse_tests.support.spark_server import machine
from lakehouse_tests.support.webhook_server import webhook_server

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse_tests.support.webhook_server import Receiver

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark"), pytest.mark.merge, pytest.mark.proof]

METERS = """
dataset: meters
owner: grid
primary_key: [reading]
source: {landing: "arrival_date={arrival_date}*.csv", format: csv, start_date: 2024-01-01}
clocks:
  event: read_at
  arrival: received_at
  watermark: {strategy: bounded, max_lateness: PT1H}
lateness: {watermark: P2D, beyond: quarantine}
model:
  fields:
    - {name: reading, type: string, required: true}
    - {name: kwh, type: "decimal(12,2)", required: true}
"""
CONSUMPTION = """
metric: consumption
owner: reporting
source: meters
measures:
  - {name: kwh, sql: sum(kwh), type: "decimal(18,2)", additive: true}
publication: {final_after: 2}
"""
HEADER = "reading,kwh,read_at,received_at\n"
TODAY = datetime.now(timezone.utc).date()


def day(ago: int) -> date:
    return TODAY - timedelta(days=ago)


def reading(of_day: date, arrived: date, name: str = "a") -> str:
    return f"{of_day}{name},5.00,{of_day}T09:00:00Z,{arrived}T10:00:00Z\n"


class Site:
    """The deployment, its landing folder, and the servers that receive its alerts."""

    def __init__(self, folder: Path, receiver: Receiver, environment: dict[str, str]) -> None:
        contracts, addresses = folder / "contracts", folder / "addresses.yaml"
        contracts.mkdir()
        (contracts / "meters.yaml").write_text(METERS)
        (contracts / "consumption.yaml").write_text(CONSUMPTION)
        addresses.write_text(
            f'owners:\n  grid: ["{receiver.url}/grid"]\n  reporting: ["chat+{receiver.url}/reporting"]\n'
            f'platform: ["{receiver.url}/platform"]\nescalate_after: PT90S\n'
        )
        self.contracts = {"LAKEHOUSE_CONTRACTS": str(contracts), "LAKEHOUSE_BUNDLED_CONTRACTS": "false"}
        lake = {
            "LAKEHOUSE_ADDRESSES": str(addresses),
            "LAKEHOUSE_ALERT_SECONDS": "5",
            "LAKEHOUSE_CLOSE_CRON": "* * * * *",
        }
        self.deployment = Deployment(folder, **self.contracts, **lake, **environment)
        self.landing = self.deployment.root / "landing" / "meters"
        self.landing.mkdir(parents=True)
        self.receiver = receiver

    def drop(self, arrived: date, *lines: str, header: str = HEADER, name: str = "") -> None:
        (self.landing / f"arrival_date={arrived}{name}.csv").write_text(header + "".join(lines))

    def command(self, *arguments: str) -> str:
        done = lakehouse_command(self.deployment.folder, *arguments, **self.contracts)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def state(self, of_day: date) -> str | None:
        where: table_io.Where = {"event_date": [of_day], "is_latest": [True]}
        rows = Table(str(self.deployment.root / "gold" / "consumption")).read(["state"], where)
        return None if rows is None or not len(rows) else rows["state"][0].as_py()

    def waiting_for(self, of_day: date) -> list[str]:
        return list(json.loads(self.command("gold", "show", "consumption", f"{of_day}", "--json"))["waiting_for"])

    def received(self, path: str) -> list[dict[str, Any]]:
        return [json.loads(body) for where, _, body in self.receiver.requests if where.endswith(path)]

    def message_ids(self, path: str, kind: str, status: str = "opened") -> list[str]:
        """The ids of the messages about a kind of alert that a JSON target received."""
        messages = [message for message in self.received(path) if message["data"]["kind"] == kind]
        return [message["message_id"] for message in messages if message["data"]["status"] == status]

    def until(self, met: Any, awaited: str, seconds: float = 300) -> None:
        self.deployment.until(met, seconds, awaited)


@pytest.mark.timeout(1800)
def test_a_number_waits_says_why_and_becomes_final_by_itself(tmp_path: Path) -> None:
    with machine(tmp_path / "machine") as host, webhook_server() as receiver:
        assert host.start().returncode == 0
        site = Site(tmp_path, receiver, host.auto)
        for ago in range(14, 3, -1):
            site.drop(day(ago), reading(day(ago), day(ago)))
        with site.deployment.running():
            silence_holds_a_number(site)
            a_held_file_and_a_waiting_row_hold_it(site)
            before = [(message["message_id"], message["data"]["status"]) for message in site.received("/grid")]
            site.deployment.kill()
        with site.deployment.running():
            site.until(lambda: site.message_ids("/platform", "held_file", "escalated"), "the escalation")
            assert site.message_ids("/platform", "silent_source", "escalated") == [], "somebody takes care of it"
            assert site.state(day(4)) == "preliminary"
            assert len(site.waiting_for(day(4))) == 2
            after = [(message["message_id"], message["data"]["status"]) for message in site.received("/grid")]
            assert set(after) >= set(before)
            assert len({name for name, status in after if status == "opened" and "held_file" in name}) <= 1
            it_becomes_final(site)


def silence_holds_a_number(site: Site) -> None:
    site.until(lambda: site.message_ids("/grid", "silent_source"), "the alert about the silence", 600)
    acknowledge(site, "silent_source")  # at once, before it escalates
    site.until(lambda: site.state(day(5)) == "final", "the day that the watermark has passed")
    site.until(lambda: site.state(day(4)) == "live", "the day that by the calendar would be final")
    [reason] = site.waiting_for(day(4))
    assert reason.startswith(f"the watermark of meters stands at {day(4)} 08:00 UTC and has to pass {day(3)} 00:00 UTC")
    site.until(lambda: [text for text in site.received("/reporting") if "was due on" in text["text"]], "the overdue number")
    [overdue] = [text["text"] for text in site.received("/reporting") if f"{day(4)} was due on" in text["text"]]
    assert "because it waits: the watermark of meters" in overdue


def acknowledge(site: Site, kind: str) -> None:
    [alert] = [json.loads(line) for line in site.command("alerts", "list", "--kind", kind, "--json").splitlines()]
    site.command("alerts", "ack", alert["alert_id"], "--by", "anna", "--reason", "asked the grid")


def a_held_file_and_a_waiting_row_hold_it(site: Site) -> None:
    site.drop(day(3), "x\n", header="something,else\n")
    site.drop(day(1), reading(day(4), day(1), "late"), reading(day(1), day(1)))
    site.until(lambda: site.message_ids("/grid", "held_file"), "the alert about the held file")
    site.until(lambda: site.state(day(4)) == "preliminary", "the watermark to pass the day")
    site.until(lambda: site.message_ids("/grid", "silent_source", "resolved"), "the end of the silence")
    held, review = sorted(site.waiting_for(day(4)), key=lambda reason: "steward" in reason)
    assert held == f"held: arrival_date={day(3)}.csv"
    assert review == "1 row waits for a steward"


def it_becomes_final(site: Site) -> None:
    site.drop(day(3), reading(day(3), day(3)))
    site.until(lambda: site.message_ids("/grid", "held_file", "resolved"), "the file to be ingested")
    assert site.state(day(4)) == "preliminary"
    site.command("quarantine", "accept", "meters", "--all", "--by", "ben", "--reason", "a slow meter", "--no-restate")
    site.until(lambda: site.state(day(4)) == "final", "the number to become final")
    rows = Table(str(site.deployment.root / "gold" / "consumption")).read(["kwh"], {"event_date": [day(4)], "is_latest": [True]})
    assert f"{rows['kwh'][0]}" == "10.00", "with the row that waited"
    assert site.waiting_for(day(4)) == []
