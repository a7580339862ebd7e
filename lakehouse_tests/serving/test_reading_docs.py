"""The snippets of docs/reading.md, run as they are written: each gives what the product itself gives for the same versions."""

from __future__ import annotations

import re
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import duckdb_extension_delta
import pyarrow as pa
import pytest

from lakehouse.contracts import load_catalog
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers.version_selector import parse
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement.pending import find_due
from lakehouse.serving import sql_views
from lakehouse.serving.sql_views import Dialect
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

DOCS = Path(__file__).parents[2] / "docs" / "reading.md"
LOAD = f"LOAD '{next(Path(duckdb_extension_delta.__file__).parent.rglob('delta.duckdb_extension'))}'"
#: A row: day, revenue, sales, state.
Row = tuple[date, Decimal, int, str]
COLUMNS = "event_date, revenue, sales, state"
VERSIONS = ("latest", "final", "as_of")
SCHEMA = pa.schema(
    [("revenue", pa.decimal128(18, 2)), ("sales", pa.int64()), ("customers", pa.int64()), ("row_count", pa.int64())]
)


class Revenue(ScriptedNumbers):
    def table(self, value: Any) -> pa.Table:
        row = {"revenue": Decimal(value or 0), "sales": 1, "customers": 1, "row_count": 1}
        return pa.Table.from_pylist([row], schema=SCHEMA)


@pytest.fixture(scope="module", name="revenue")
def _revenue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Revenue]:
    """Two weeks of November: on each day its own number comes, and that of two days before is corrected."""
    revenue = Revenue(lake_in(tmp_path_factory.mktemp("lake")), load_catalog(None).metrics["revenue"])
    with without_spark():
        for day in range(1, 15):
            revenue.lake.settings.now = datetime(2024, 11, day, 9, tzinfo=timezone.utc)
            revenue.by_day[date(2024, 11, day)] = revenue.table(f"{day}.50")
            if day > 2:
                revenue.by_day[date(2024, 11, day - 2)] = revenue.table(f"{day}.75")
            days = {*revenue.by_day, *find_due(revenue.lake, contract(), revenue.series)}
            restatement_days.restate(revenue.lake, contract(), revenue.series, revenue.session, days, Run("run"))
        yield revenue


@pytest.fixture(scope="module", name="truth")
def _truth(revenue: Revenue) -> dict[str, list[Row]]:
    """The product's own answers."""
    one = revenue.series
    known = numbers_history.history(revenue.lake, one)
    versions_by_name = {
        "latest": numbers_history.versions(known, parse("latest")),
        "as_of": numbers_history.versions(known, parse("2024-11-10T08:00:00Z")),
    }
    versions_by_name["final"] = {
        start: version for start, version in versions_by_name["latest"].items() if version.state.value == "final"
    }
    told = {name: [row_of(version) for version in versions.values()] for name, versions in versions_by_name.items()}
    assert len({str(rows) for rows in told.values()}) == len(VERSIONS), "three different answers"
    return told


def row_of(version: numbers_history.PublishedVersion) -> Row:
    (row,) = version.rows
    return version.start, row["revenue"], row["sales"], version.state.value


def snippet(heading: str, language: str, revenue: Revenue) -> str:
    """The code under a heading, on this lake."""
    part = DOCS.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = re.search(rf"```{language}\n(.*?)```", part, re.DOTALL)
    assert found is not None
    assert "lakehouse_data" in found[1]
    return found[1].replace("lakehouse_data", revenue.lake.root).replace("INSTALL delta; LOAD delta", LOAD)


def plain(rows: list[tuple[Any, ...]]) -> list[Row]:
    """Rows of any engine as Python has them."""
    made = []
    for day, revenue, sales, state in rows:
        plain_day = date.fromisoformat(f"{day}"[:10])
        made.append((plain_day, Decimal(f"{revenue}").quantize(Decimal("0.01")), int(sales), str(state)))
    return made


@pytest.mark.merge
@pytest.mark.parametrize("engine", ["DuckDB", "polars", "pandas"])
def test_python(revenue: Revenue, truth: dict[str, list[Row]], engine: str) -> None:
    said: dict[str, Any] = {}
    exec(snippet(engine, "python", revenue), said)
    for name in VERSIONS:
        rows = said[name].rows() if engine == "polars" else list(said[name].itertuples(index=False, name=None))
        assert plain(rows) == truth[name], name


@pytest.mark.merge
def test_a_bi_tool(revenue: Revenue, truth: dict[str, list[Row]], tmp_path: Path) -> None:
    path = str(tmp_path / "lakehouse.duckdb")
    with duckdb.connect(path) as made:
        made.execute(LOAD)
        for statement in views(revenue, Dialect.duckdb):
            made.execute(statement)
    with duckdb.connect(path, read_only=True) as tool:
        tool.execute(f"{LOAD}; SET TimeZone = 'UTC'")
        for name, relation in relations("TIMESTAMPTZ '2024-11-10 08:00:00+00'").items():
            rows = tool.execute(f"SELECT {COLUMNS} FROM {relation} ORDER BY event_date").fetchall()
            assert plain(rows) == truth[name], name


def views(revenue: Revenue, dialect: Dialect) -> list[str]:
    """The statements without those that fetch an extension."""
    return sql_views.statements(revenue.lake, load_catalog(None), dialect)[len(sql_views.PREAMBLE[dialect]) :]


def relations(moment: str) -> dict[str, str]:
    """The views of docs/reading.md by version."""
    named = {"latest": "revenue_latest", "final": "revenue_final", "as_of": "revenue_asof"}
    assert all(f"`{relation}" in DOCS.read_text() for relation in named.values())
    return named | {"as_of": f"revenue_asof({moment})"}


@pytest.mark.spark
def test_spark(revenue: Revenue, truth: dict[str, list[Row]], spark: SparkSession) -> None:
    queries = re.split(r"^-- ", snippet("Spark SQL", "sql", revenue), flags=re.MULTILINE)[1:]
    assert [query.split("\n")[0] for query in queries] == list(VERSIONS)
    for query in queries:
        name, text = query.split("\n", 1)
        assert plain([tuple(row) for row in spark.sql(text.strip().rstrip(";")).collect()]) == truth[name], name


@pytest.mark.merge
@pytest.mark.spark
def test_the_views_in_spark(revenue: Revenue, truth: dict[str, list[Row]], spark: SparkSession) -> None:
    for statement in views(revenue, Dialect.spark):
        spark.sql(statement.rstrip(";"))
    for name, relation in relations("TIMESTAMP '2024-11-10 08:00:00Z'").items():
        rows = spark.sql(f"SELECT {COLUMNS} FROM {relation} ORDER BY event_date").collect()
        assert plain([tuple(row) for row in rows]) == truth[name], name
        spark.sql(f"DROP {'FUNCTION' if name == 'as_of' else 'VIEW'} {relation.partition('(')[0]}")
