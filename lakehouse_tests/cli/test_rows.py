"""``lakehouse rows`` as people type it: on the screen, as JSON, in a file, and what it refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from lakehouse.cli.program import app
from lakehouse.orchestration.resources import LakeSpark
from lakehouse_tests.support.forked_cli import lakehouse_command
from lakehouse_tests.support.reproducible_lake import reproducible_lake

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


@pytest.mark.merge
@pytest.mark.spark
def test_rows_now_and_then_are_shown_and_written(lake, spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = reproducible_lake(lake, spark, [])
    sample.deliver(1, "a,1,1,insert,,red", "b,2,2,insert,,blue")
    sample.deliver(3, "a,5,1,correct,,red")
    sample.publish()
    contracts = tmp_path / "contracts"
    contracts.mkdir()
    written = sample.sample.contract.model_dump(mode="json", exclude_none=True, exclude_unset=True)
    (contracts / "source.yaml").write_text(yaml.safe_dump(written))
    monkeypatch.setenv("LAKEHOUSE_ROOT", lake.root)
    monkeypatch.setenv("LAKEHOUSE_CONTRACTS", str(contracts))

    def run(*arguments: str) -> Result:
        result = CliRunner().invoke(app, ["rows", "events", *arguments])
        assert result.exit_code == 0, result.output
        return result

    assert '2024-02-01  a: id "a", amount 5, colour "red"\n' in run("--date", "2024-02-01").output
    then = '2024-02-01  a: id "a", amount 1, colour "red"\n'
    with monkeypatch.context() as small:
        small.setattr(LakeSpark, "session", lambda _: pytest.fail("few rows start no Spark"))
        assert run("--date", "2024-02-01", "--known-at", "2024-02-02").output == then
    with monkeypatch.context() as large:
        large.setenv("LAKEHOUSE_LOCAL_ROWS", "0")
        assert run("--date", "2024-02-01", "--known-at", "2024-02-02").output == then
    limited = run("--limit", "1").output
    assert limited.count("amount") == 1
    assert "There are more rows: --limit shows more of them, --to FILE writes all." in limited
    by_key = {row["record_key"]: row for row in map(json.loads, run("--json").output.splitlines())}
    assert {key: row["event_date"] for key, row in by_key.items()} == {"a": "2024-02-01", "b": "2024-02-02"}
    path = tmp_path / "rows.parquet"
    assert f"2 rows written to {path}." in run("--known-at", "2024-02-02", "--to", str(path)).output.replace("\n", " ")
    assert pq.read_table(path, columns=["record_key", "amount"]).to_pylist() == [
        {"record_key": "a", "amount": 1},
        {"record_key": "b", "amount": 2},
    ]
    named = [("create", "early", "--through", "2024-02-01", "--by", "anna", "--reason", "audit"), ("show", "early"), ("list",)]
    for command, *more in named:
        shown = CliRunner().invoke(app, ["snapshot", command, "events", *more])
        assert (shown.exit_code, "early  arrival days through 2024-02-01, by anna" in shown.output) == (0, True), shown.output
    assert '2024-02-01  a: id "a", amount 1, colour "red"\n' in run("--snapshot", "early").output
    before = tmp_path / "before.parquet"
    assert "0 rows written to " in run("--known-at", "2023-12-31", "--to", str(before)).output
    assert pq.read_table(before).column_names[:2] == pq.read_table(path).column_names[:2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["shop"], "shop"),
        (["sales", "--date", "2024-11-07", "--start-date", "2024-11-01"], "--date is one day"),
        (["sales", "--to", "rows.xlsx"], "has to end in .parquet, .csv or .delta"),
        (["sales", "--known-at", "yesterday"], "yesterday"),
        (["sales", "--snapshot", "a", "--known-at", "2024-11-07"], "use it without --known-at"),
        (["sales", "--snapshot", "lost"], "the snapshot lost of sales does not exist; known are none"),
        (["sales", "--date", "2024-11-07"], "No row of sales has ever been on these days."),
    ],
)
def test_what_cannot_be_shown_is_reported_in_a_sentence(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = lakehouse_command(tmp_path, "rows", *arguments)
    assert done.returncode != 0
    assert message in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
