"""``lakehouse gold reproduce``: what it prints, and the exit codes for equal, different and impossible."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake
from typer.testing import CliRunner

from lakehouse import locations
from lakehouse.cli.program import app
from lakehouse.contracts.series import Series
from lakehouse_tests.support.forked_cli import lakehouse_command
from lakehouse_tests.support.reproducible_lake import METRICS, reproducible_lake

if TYPE_CHECKING:
    from click.testing import Result


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["revenu", "2024-11-07", "--revision", "1"], "No contract has 'metric: revenu'; known are earthquakes_daily, revenue."),
        (["revenue", "novembre", "--revision", "1"], "'novembre' is no period"),
        (
            ["revenue", "2024-11-07"],
            "specify the number: 'lakehouse gold reproduce revenue 2024-11-07 --revision r2', or a version name.",
        ),
        (["revenue_v2024-11-07.r1", "2024-11-07"], "contains period and revision"),
        (["revenue_v2024-11-07.r1"], "revenue has no revision 1 of 2024-11-07; published: nothing."),
        (["revenue", "2024-W45", "--revision", "1"], "revenue_weekly has no revision 1 of 2024-W45"),
    ],
)
def test_numbers_that_cannot_be_reproduced_are_reported_in_a_sentence(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = lakehouse_command(tmp_path, "reproduce", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.merge
@pytest.mark.spark
def test_the_exit_code_tells_equal_from_different(lake, spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reproducible = reproducible_lake(lake, spark, METRICS[:1])
    reproducible.deliver(1, "a,1,1,insert,,red")
    reproducible.publish()
    contracts = tmp_path / "contracts"
    contracts.mkdir()
    for one in (reproducible.sample.contract, METRICS[0]):
        name = "source" if one is reproducible.sample.contract else "metric"
        (contracts / f"{name}.yaml").write_text(
            yaml.safe_dump(one.model_dump(mode="json", exclude_none=True, exclude_unset=True))
        )
    monkeypatch.setenv("LAKEHOUSE_ROOT", lake.root)
    monkeypatch.setenv("LAKEHOUSE_CONTRACTS", str(contracts))

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["reproduce", *arguments])

    equal = run("total_v2024-02-01.r1")
    assert equal.exit_code == 0, equal.output
    assert "total_v2024-02-01.r1, computed again from Bronze, is equal." in equal.output
    assert "compared: total, biggest, row_count (1 row)" in equal.output
    table = locations.gold(lake, Series(METRICS[0]))
    rows = table.read()
    bent = rows.set_column(rows.column_names.index("total"), "total", pa.array([9], pa.int64()))
    write_deltalake(table.address, bent, mode="overwrite")
    differs = run("total", "2024-02-01", "--revision", "1")
    assert differs.exit_code == 1
    assert "total: 9 published, 1 computed again" in differs.output
