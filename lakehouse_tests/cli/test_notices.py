"""``lakehouse alerts notices`` as people type it: who was notified of what, and sending without a daemon. No Spark is started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakehouse.lake import Lake
from lakehouse.settings import Settings
from lakehouse_tests.support.contract_texts import EVENTS_SOURCE, TOTAL_METRIC
from lakehouse_tests.support.forked_cli import lakehouse_command
from lakehouse_tests.support.notified_lake import NotifiedLake, metric, numbers_from_silver, published_lake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from subprocess import CompletedProcess


@pytest.fixture(autouse=True)
def _added_up() -> Iterator[None]:
    with numbers_from_silver():
        yield


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    """A folder with a metric that the board reads, and one that nobody does."""
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / "events.yaml").write_text(EVENTS_SOURCE)
    (tmp_path / "contracts" / "total.yaml").write_text(f"{TOTAL_METRIC}consumers: [board]\n")
    (tmp_path / "contracts" / "unread.yaml").write_text(TOTAL_METRIC.replace("metric: total", "metric: unread"))
    return tmp_path


def settings_below(folder: Path) -> Lake:
    return Lake(Settings(root=str(folder / "lake"), landing=None))


def command(folder: Path, *arguments: str, target: str = "file:told.jsonl") -> CompletedProcess[str]:
    said = {"LAKEHOUSE_BUNDLED_CONTRACTS": "false", "LAKEHOUSE_NOW": "2024-02-04T12:30:00Z", "JAVA_HOME": "/nonexistent"}
    return lakehouse_command(folder, "notices", *arguments, **said, LAKEHOUSE_ALERT_TARGETS=json.dumps([target]))


def restated(folder: Path) -> NotifiedLake:
    sample = published_lake(settings_below(folder), metric("total", "board"), metric("unread"))
    sample.add_rows(("late", 1, 5))
    sample.publish()
    return sample


@pytest.mark.merge
def test_pending_notices_are_sent_at_once_and_listed(folder: Path) -> None:
    sample = restated(folder)
    done = command(folder, "--send")
    assert (done.returncode, done.stderr) == (0, "notices delivered: 1, waiting: 0; audit rows marked as notified: 1.\n")
    path = folder / "told.jsonl"
    assert done.stdout == (
        "2024-02-04 12:00  total restated for 2024-02-01: late_data\n"
        f"    board by file:{path}: delivered 2024-02-04 12:30 UTC\n"
        "1 notice.\n"
    )
    (line,) = path.read_text().splitlines()
    assert json.loads(line)["data"]["restated"][0]["measures"][0]["difference"] == 5
    assert sample.notified() == {"late": [True]}

    assert command(folder, "--send").stderr == "every consumer has been notified.\n"
    assert len(path.read_text().splitlines()) == 1
    (told,) = command(folder, "--json").stdout.splitlines()
    row = json.loads(told)
    assert (row["consumer"], row["status"], row["delivered_at"]) == ("board", "audited", "2024-02-04T12:30:00+00:00")
    assert row["data"]["window"]["periods"] == ["2024-02-01"]
    assert command(folder, "--pending").stdout == "0 notices.\n"
    assert command(folder, "--metric", "unread").stdout == "0 notices.\n"
    assert command(folder, "--metric", "total").stdout.endswith("1 notice.\n")
    wrong = command(folder, "--metric", "totla")
    assert (wrong.returncode, wrong.stderr) == (2, "No contract has 'metric: totla'; known are total, unread.\n")


@pytest.mark.merge
def test_a_target_that_fails_is_named_and_its_notice_waits(folder: Path) -> None:
    restated(folder)
    (folder / "full").mkdir()
    done = command(folder, "--send", target="file:full/../full/.")
    assert done.returncode == 1
    assert "did not take message" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.splitlines()[1].endswith(": waits")
    (told,) = command(folder, "--pending", "--json").stdout.splitlines()
    assert json.loads(told)["status"] == "waiting"


@pytest.mark.merge
def test_what_lies_within_the_bounds_of_a_consumer_is_listed_and_not_sent(folder: Path) -> None:
    restated(folder)
    (folder / "contracts" / "total.yaml").write_text(
        f"{TOTAL_METRIC}consumers: [board]\nmateriality: {{board: {{total: {{percent: 50}}}}}}\n"
    )
    done = command(folder, "--send")
    assert (done.returncode, (folder / "told.jsonl").exists()) == (0, False)
    assert done.stdout == (
        "2024-02-04 12:00  total restated for 2024-02-01: late_data\n"
        "    board: within the bounds that the contract gives, not sent\n"
        "1 notice.\n"
    )
    assert command(folder, "--pending").stdout == "0 notices.\n"


def test_the_first_scan_reports_that_notification_begins(folder: Path) -> None:
    sample = NotifiedLake(settings_below(folder), [metric("total", "board")])
    sample.at(4)
    for number in range(2):
        sample.add_rows((f"{number}", 1, 1))
        sample.publish()
    done = command(folder, "--send")
    assert (done.stderr, done.stdout) == ("Consumers are notified of everything published from now on.\n", "0 notices.\n")
    assert command(folder, "--send").stderr == "every consumer has been notified.\n"


def test_without_consumers_nobody_is_notified(folder: Path) -> None:
    (folder / "contracts" / "total.yaml").write_text(TOTAL_METRIC)
    done = command(folder, "--send")
    assert (done.returncode, done.stderr) == (0, "No metric's contract names 'consumers:'; there is nobody to notify.\n")
