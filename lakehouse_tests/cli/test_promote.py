"""``lakehouse promote``, ``rollback`` and ``promotions`` as people type them. None of these starts Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakehouse.lake import Lake
from lakehouse.settings import Settings
from lakehouse_tests.support.contract_texts import EVENTS_SOURCE, TOTAL_METRIC
from lakehouse_tests.support.forked_cli import lakehouse_command
from lakehouse_tests.support.two_dataset_versions import three_days

if TYPE_CHECKING:
    from subprocess import CompletedProcess

WHO = ("--by", "ana", "--reason", "net of refunds")


@pytest.fixture
def deployment(tmp_path: Path) -> Path:
    """A folder with two versions of a metric, filled, that differ on one day of three."""
    folder = tmp_path / "contracts"
    folder.mkdir()
    (folder / "events.yaml").write_text(EVENTS_SOURCE)
    (folder / "total.yaml").write_text(f"{TOTAL_METRIC}deprecated_on: 2024-05-01\n")
    (folder / "total_v2.yaml").write_text(f"{TOTAL_METRIC.replace('sum(amount)', 'sum(amount) + 0')}dataset_version: 2\n")
    three_days(Lake(Settings(root=str(tmp_path / "lake"), landing=None)))
    return tmp_path


def command(folder: Path, *arguments: str) -> CompletedProcess[str]:
    return lakehouse_command(
        folder, *arguments, LAKEHOUSE_BUNDLED_CONTRACTS="false", LAKEHOUSE_NOW="2024-02-05T12:00:00Z", JAVA_HOME="/nonexistent"
    )


@pytest.mark.merge
def test_a_dry_run_changes_nothing_and_reports_whether_promotion_is_possible(deployment: Path) -> None:
    pages = ("--html", "report.html", "--markdown", "report.md")
    done = command(deployment, "promote", "total", "v2", *WHO, "--dry-run", *pages)
    assert done.returncode == 0, done.stderr
    assert "1 of 3 days differ" in done.stdout
    assert done.stdout.endswith("v2 can be promoted; it would publish 1 period. Nothing was changed.\n")
    assert "<html" in (deployment / "report.html").read_text(encoding="utf-8")
    assert (deployment / "report.md").read_text(encoding="utf-8").startswith("# total\n")
    assert command(deployment, "promotions", "total").stdout == "gold/total shows v1.\n"
    deprecated = command(deployment, "moves", "total")
    assert deprecated.stdout == "gold/total shows v1.\n"
    assert deprecated.stderr == "'lakehouse moves' is deprecated: the next release has 'lakehouse gold promotions' only.\n"
    strict = command(deployment, "promote", "total", "v2", *WHO, "--dry-run", "--threshold", "total=5")
    assert strict.returncode == 1
    assert "is beyond the threshold (--accept-differences)" in strict.stderr
    assert "v2 cannot be promoted. Nothing was changed." in strict.stdout


@pytest.mark.merge
def test_readers_are_moved_notified_and_moved_back(deployment: Path) -> None:
    done = command(deployment, "promote", "total", "2", *WHO, "--threshold", "total=20%", "--output", "notes.md")
    assert done.returncode == 0, done.stderr
    assert "gold/total shows v2, in place of v1: 1 period." in done.stdout
    notes = (deployment / "notes.md").read_text(encoding="utf-8")
    assert (deployment / "lake/gold/total_release_notes/v2-2024-02-05.md").read_text(encoding="utf-8") == notes
    moved, logic = "ana moved `latest` of total from v1 to v2", "sum\\(amount\\) + 0"
    for said in (moved, "net of refunds", logic, "deprecated from 2024-05-01"):
        assert said in notes or said.replace("\\", "") in notes
    again = command(deployment, "promote", "total", "v2", *WHO)
    assert (again.returncode, again.stdout) == (0, "gold/total shows v2 since 2024-02-05 12:00 UTC.\n")
    back = command(deployment, "rollback", "total", "--by", "bo", "--reason", "refunds were counted twice")
    assert back.returncode == 0, back.stderr
    assert back.stdout.endswith("gold/total shows v1, in place of v2: 1 period.\n")
    notes = (deployment / "lake/gold/total_release_notes/v1-2024-02-05.md").read_text(encoding="utf-8")
    assert back.stdout.startswith(notes), "readers of a rollback are told, too"
    expected = (
        "bo moved `latest` of total from v2 to v1",
        "refunds were counted twice",
        "| total |  62 |  60 |",
        "Restated: 2024-02-02.",
    )
    for text in (*expected, "lakehouse promote total v2 --by YOU"):
        assert text in notes
    assert command(deployment, "promotions", "total").stdout == (
        "2024-02-05 12:00 UTC  promote: v1 -> v2 by ana\n"
        "    net of refunds (1 period, gold version 2)\n"
        "2024-02-05 12:00 UTC  rollback: v2 -> v1 by bo\n"
        "    refunds were counted twice (1 period, gold version 3)\n"
        "gold/total shows v1.\n"
    )


@pytest.mark.merge
def test_refusals_are_reported_in_sentences(deployment: Path) -> None:
    done = command(deployment, "promote", "total", "v2", *WHO, "--threshold", "total=5")
    assert done.returncode == 1
    assert done.stderr.startswith("gold/total still shows v1; nothing has changed:\n    total of 2024-02-02: 20 -> 22")
    unknown = command(deployment, "promote", "total", "v3", *WHO)
    assert unknown.returncode == 1
    assert "no contract has 'metric: total' with 'dataset_version: 3' (there are [1, 2])" in unknown.stderr
    back = command(deployment, "rollback", "total", *WHO)
    assert back.returncode == 1
    assert "gold/total has not been promoted yet" in back.stderr
    assert "Traceback" not in done.stderr + unknown.stderr + back.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("promote", "totla", "v2", *WHO), "No contract has 'metric: totla'; known are total."),
        (("promote", "total", "two", *WHO), "'two' is not a dataset version"),
        (("promote", "total", "v2", *WHO, "--threshold", "total"), "'total' is not a threshold"),
        (("promote", "total", "v2", *WHO, "--threshold", "total=-1"), "'total=-1' is not a threshold"),
        (("promote", "total", "v2", *WHO, "--threshold", "total=nan"), "'total=nan' is not a threshold"),
        (("rollback", "total", "--to", "x", *WHO), "'x' is not a dataset version"),
        (("promote", "total", "v2"), "Missing option '--reason'"),
    ],
)
def test_what_was_mistyped(tmp_path: Path, deployment: Path, arguments: tuple[str, ...], message: str) -> None:
    done = command(deployment, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
