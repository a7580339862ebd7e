"""``lakehouse model backtest``, ``score`` and ``canary`` as people type them, in this process. None of these starts Spark."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakehouse.cli import program as cli
from lakehouse.models import score
from lakehouse.models.canary_log import running
from lakehouse.models.scores import LoadedVersion, ScoringRun
from lakehouse_tests.support import trained_lake
from lakehouse_tests.support.scored_rows import constant_model, linear_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakehouse.lake import Lake

WHY = ("--by", "ana", "--reason", "it looks better")


@dataclass(frozen=True)
class Ended:
    """What a command has printed, and its exit code."""

    code: int
    stdout: str
    stderr: str


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A lake with two versions of a model, of which none is in use."""
    lake = trained_lake.settings_of(tmp_path)
    trained_lake.fill(lake)
    with trained_lake.own_modules():
        for version in ("v2.3", "v2.4"):
            trained_lake.train(lake, version)
    values = {"ROOT": lake.root, "CONTRACTS": f"{lake.settings.contracts}", "BUNDLED_CONTRACTS": "false"}
    for name, value in {**values, "NOW": "2024-06-01T12:00:00Z"}.items():
        monkeypatch.setenv(f"LAKEHOUSE_{name}", value)
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    return lake


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Runs ``lakehouse model`` with some arguments."""

    def run(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["lakehouse", "model", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        printed = capsys.readouterr()
        return Ended(int(end.value.code or 0), printed.out, printed.err)

    return run


def _score(lake: Lake) -> None:
    """Scores of both versions on the first of March, as the canary has them."""
    rows = trained_lake.rows(1)
    rows = rows.append_column("event_date", rows["event_ts"].cast(pa.date32()))
    day = pa.scalar(trained_lake.SET.split["test"])
    entry = running(lake, "fraud")
    assert entry is not None
    champion, challenger = (
        LoadedVersion(trained_lake.MODEL, version, model, ["amount"])
        for version, model in (("v2.3", constant_model(0.25)), ("v2.4", linear_model()))
    )
    of_day = rows.filter(pc.equal(rows["event_date"], day))
    run = ScoringRun("run", "ana", lake.now() + timedelta(seconds=1))
    score.score_rows(lake, of_day, [day.as_py()], champion, score.RunningCanary(replace(entry, share="1"), challenger), run)


@pytest.mark.merge
def test_a_canary_from_its_start_to_its_end(lake: Lake, command: Callable[..., Ended]) -> None:
    refused = command("score", "fraud", "--from", "2024-03-01")
    assert (refused.code, refused.stdout) == (1, "")
    assert refused.stderr.startswith(
        "fraud has no champion, so that nothing can be scored: 'lakehouse model promote fraud VERSION'"
    )
    assert command("promote", "fraud", "v2.3", "--notes", "the first", "--by", "ana").code == 0
    missing = command("canary", "start", "fraud", "v2.4", *WHY)
    assert "fraud: a canary needs a share of the entities; give --share 10%" in missing.stderr
    wrong = command("canary", "start", "fraud", "v2.4", *WHY, "--share", "many")
    assert (wrong.code, "'many' is no share; write 10% or 0.1" in wrong.stderr) == (2, True)

    started = command("canary", "start", "fraud", "v2.4", *WHY, "--share", "10%")
    assert started.stdout.startswith("Started: canary of fraud v2.4 against v2.3 on 10.0000% of the entities.\n"), started.stderr
    second = command("canary", "start", "fraud", "v2.4", *WHY, "--share", "10%")
    assert (second.code, "a model has one canary at a time" in second.stderr) == (1, True)
    early = command("canary", "status", "fraud")
    assert "Success criteria: not enough labels yet (0 mature labels of 0 scored entities; 200 are needed)." in early.stdout
    assert "No entity of the canary of fraud" in command("canary", "compare", "fraud", "--date", "2024-03-01").stdout

    _score(lake)
    compared = json.loads(command("canary", "compare", "fraud", "--date", "2024-03-01", "--json").stdout)
    assert (compared["entities"], compared["champion_mean"]) == (len(compared["furthest"]), 0.25)
    assert "Furthest apart" in command("canary", "compare", "fraud", "--date", "2024-03-01").stdout

    stopped = command("canary", "stop", "fraud", "--reason", "enough", "--by", "bo")
    assert "it was judged: not enough labels yet on 0 labels." in stopped.stdout
    assert "no canary of fraud is running" in command("canary", "stop", "fraud", "--reason", "again").stderr
    shown = command("show", "fraud", "v2.4").stdout
    assert shown.count("canary: event ") == 3


@pytest.mark.merge
def test_a_backtest_that_cannot_be_made_is_refused_before_spark_starts(lake: Lake, command: Callable[..., Ended]) -> None:
    months = ("--from", "2024-10", "--to", "2024-09")
    refused = command("backtest", "fraud", "v2.4", "--against", "v2.3", *months)
    assert (refused.code, refused.stdout) == (1, "")
    assert refused.stderr == "the months end before they begin: 2024-10 to 2024-09; exchange --from and --to\n"
    same = command("backtest", "fraud", "v2.4", "--against", "v2.4", "--from", "2024-10", "--to", "2024-10")
    assert same.stderr == "v2.4 cannot be compared with itself; name another version with --against\n"
    unknown = command("backtest", "fraud", "v2.9", "--against", "v2.3", "--from", "2024-10", "--to", "2024-10")
    assert unknown.stderr == "fraud v2.9 does not exist; released are v2.3, v2.4\n"
