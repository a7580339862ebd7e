"""Two versions of one number: of a day, of a window, and of the stream, in the API and on the command line. No Spark."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import yaml
from typer.testing import CliRunner

from lakehouse.cli.program import app
from lakehouse.live import table
from lakehouse.serving.models import ComparisonModel
from lakehouse_tests.support.api_client import api_client, catalog, get_json
from lakehouse_tests.support.numbers_without_spark import FIRST, ScriptedNumbers, metric, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from click.testing import Result
    from starlette.testclient import TestClient

    from lakehouse.lake import Lake

MIDNIGHT = datetime(2024, 1, 1, tzinfo=timezone.utc)
HOURLY = metric("hourly", window={"size": "PT1H"}, live=True, publication={"rollups": ["week"]})
TIME = pa.timestamp("us", "UTC")


def of_hours(numbers: dict[int, int]) -> pa.Table:
    """A day's number: the total of each hour."""
    starts = [MIDNIGHT + timedelta(hours=hour) for hour in sorted(numbers)]
    totals = [numbers[hour] for hour in sorted(numbers)]
    return pa.table(
        {
            "window_start": pa.array(starts, TIME),
            "total": pa.array(totals, pa.int64()),
            "row_count": pa.array([1] * len(totals), pa.int64()),
        }
    )


def stream(lake: Lake, numbers: dict[int, int]) -> None:
    """What the stream has counted of the same day."""
    of_day = of_hours(numbers)
    starts, count = of_day["window_start"].to_pylist(), len(of_day)
    columns: dict[str, Any] = {
        "event_date": pa.array([FIRST] * count, pa.date32()),
        "window_end": pa.array([start + timedelta(hours=1) for start in starts], TIME),
        "updated_at": pa.array([start + timedelta(minutes=5) for start in starts], TIME),
        "batch": pa.array(range(count), pa.int64()),
        "watermark": pa.array([None] * count, TIME),
        "query": pa.array(["q"] * count),
    }
    for name, values in columns.items():
        of_day = of_day.append_column(name, values)
    assert table.write(lake, HOURLY, "q", 0, of_day)


@pytest.fixture
def numbers(lake: Lake) -> Iterator[ScriptedNumbers]:
    """At 2 o'clock the day has an hour; at 12 three, of which the first has grown."""
    with without_spark():
        made = ScriptedNumbers(lake, HOURLY)
        for hour, totals in ((2, {1: 9}), (12, {1: 10, 9: 5, 10: 7}), (30, {1: 10, 9: 6, 10: 7})):
            made.by_day[FIRST] = of_hours(totals)
            made.at(1, hour)
            made.publish(1)
        stream(lake, {1: 10, 9: 4})
        yield made


@pytest.fixture
def client(numbers: ScriptedNumbers) -> Iterator[TestClient]:
    with api_client(numbers.lake, catalog(HOURLY, metric("total"))) as opened:
        yield opened


def compared(client: TestClient, window: str, **names: str) -> dict[str, Any]:
    answer: dict[str, Any] = get_json(client, "/metrics/hourly/compare", window=window, **names)
    ComparisonModel.model_validate(answer)
    return answer


def sides(answer: dict[str, Any]) -> list[tuple[Any, Any]]:
    return [(change["before"], change["after"]) for change in answer["changes"] if change["measure"] == "total"]


def test_a_window_is_compared_from_its_own_first_number_on(client: TestClient) -> None:
    grown = compared(client, "2024-01-01T09")
    assert (grown["window"], sides(grown)) == ("2024-01-01T09", [(5, 6)])
    assert (grown["version_a"]["version"], grown["version_b"]["version"]) == ("r2", "r3")
    assert grown["version_b"]["note"].startswith("not final")
    assert sides(compared(client, "2024-01-01T01")) == [(9, 10)]
    assert sides(compared(client, "2024-01-01T10")) == [(7, 7)]
    assert sides(compared(client, "2024-01-01T09", version_a="r1", version_b="r3")) == [(None, 6)]
    assert compared(client, "2024-01-01T20")["changes"] == []
    assert len(compared(client, "2024-01-01")["changes"]) == 3, "the day has all of its windows"


def test_the_first_number_of_a_window_is_that_of_the_revision_that_brought_it(client: TestClient) -> None:
    first = get_json(client, "/metrics/hourly", window="2024-01-01T09", version="first")
    assert [row["total"] for row in first["result"]] == [5]
    assert first["version"] == "r2"
    of_two = get_json(client, "/metrics/hourly/compare", window="2024-01-01T09", version_a="first", version_b="r3")
    assert of_two["version_a"]["version"] == "r2"


@pytest.mark.parametrize("text", ["2024-01-01-09", "2024-01-01 09:00", "2024-01-01T09:00:00Z", "2024-01-01-9", "2024-01-01t09"])
def test_a_window_may_be_written_as_people_do(client: TestClient, text: str) -> None:
    assert compared(client, text) == compared(client, "2024-01-01T09")
    assert get_json(client, "/metrics/hourly", window=text)["window"] == "2024-01-01T09"
    assert get_json(client, "/metrics/hourly/history", window=text)["window"] == "2024-01-01T09"
    assert compared(client, "2024-01-01-09", version_a="2024-01-01 03:00")["version_a"]["version"] == "r1"


def test_numbers_of_the_stream_are_a_side_without_state_and_reason(client: TestClient) -> None:
    answer = compared(client, "2024-01-01", version_a="live", version_b="latest")
    assert sorted(sides(answer), key=str) == [(10, 10), (4, 6), (None, 7)]
    assert answer["version_a"] == {
        "asked": "live",
        "version_name": "live",
        "version": "live",
        "state": None,
        "label": "Live (stream)",
        "computed_at": "2024-01-01T09:05:00Z",
        "note": None,
    }
    assert (answer["reason"], answer["changed_rows"]) == (None, None)
    assert answer["totals"]["total"]["difference"] == 23 - 14
    of_hour = compared(client, "2024-01-01-09", version_a="final", version_b="live")
    assert sides(of_hour) == [(6, 4)]
    assert of_hour["version_b"]["label"] == "Live (stream)"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("total/compare?window=2024-01-01&version_a=live", "not-live"),
        ("hourly/compare?window=2024-W01&version_a=live", "not-live"),
        ("hourly/compare?window=2024-01-01&version_a=r9", "unknown-version"),
        ("hourly/compare?window=2024-01-01T09:30", "unknown-window"),
        ("total/compare?window=2024-01-01-09", "unknown-window"),
        ("hourly/compare?window=2024-01-02", "not-published"),
    ],
)
def test_what_cannot_be_compared_is_refused(client: TestClient, path: str, kind: str) -> None:
    assert get_json(client, f"/metrics/{path}", 404)["type"] == f"urn:lakehouse:{kind}"


@pytest.fixture
def run(numbers: ScriptedNumbers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    contracts = tmp_path / "contracts"
    contracts.mkdir()
    for contract in (numbers.source, HOURLY):
        written = contract.model_dump(mode="json", exclude_none=True, exclude_unset=True, by_alias=False)
        (contracts / f"{getattr(contract, 'dataset', 'hourly')}.yaml").write_text(yaml.safe_dump(written))
    monkeypatch.setenv("LAKEHOUSE_ROOT", numbers.lake.root)
    monkeypatch.setenv("LAKEHOUSE_CONTRACTS", str(contracts))
    monkeypatch.setenv("LAKEHOUSE_NOW", "2024-01-02T06:00:00Z")

    def command(*words: str, code: int = 0) -> Result:
        result = CliRunner().invoke(app, ["gold", *words], env={"COLUMNS": "300"})
        assert result.exit_code == code, result.output
        return result

    return command


def totals(output: str) -> list[tuple[Any, Any]]:
    return [(change["before"], change["after"]) for change in json.loads(output)["changes"] if change["measure"] == "total"]


@pytest.mark.parametrize("window", ["2024-01-01T09", "2024-01-01-09", "2024-01-01 09:00"])
def test_the_commands_say_of_a_window_what_the_api_says(run: Any, window: str) -> None:
    assert "window_start 2024-01-01T09  total 6  row_count 1" in run("show", "hourly", window).output
    assert "window_start 2024-01-01T09  total 5  row_count 1" in run("show", "hourly", window, "--version", "first").output
    assert [line.split()[0] for line in run("history", "hourly", window).output.splitlines() if line.startswith("r")] == [
        "r2",
        "r3",
    ]
    assert totals(run("compare", "hourly", window, "--json").stdout) == [(5, 6)]
    assert totals(run("diff", "hourly", window, "--json").stdout) == [(5, 6)]
    assert totals(run("diff", "hourly", window, "--from", "live", "--json").stdout) == [(4, 6)]


def test_a_comparison_with_the_stream_is_printed_and_refused_where_there_is_none(run: Any, tmp_path: Path) -> None:
    assert "live" in run("compare", "hourly", "2024-01-01", "live", "latest").output
    report = tmp_path / "diff.md"
    run("diff", "hourly", "2024-01-01", "--from", "live", "--markdown", str(report))
    assert "2024-01-01T09" in report.read_text()
    assert "not of a week" in f"{run('compare', 'hourly', '2024-W01', 'live', code=1).exception}"
    assert "leave --start-date" in " ".join(
        run("diff", "hourly", "2024-01-01", "--start-date", "2024-01-01", code=2).output.split()
    )


def test_a_window_that_there_is_not_is_named_as_it_was_typed(run: Any) -> None:
    refused = " ".join(run("show", "hourly", "2024-01-01-09-30", code=2).output.split())
    assert "no window starts at 2024-01-01-09-30: there are 2024-01-01T09" in refused
    assert "'2024-01-01-09' is no period: it is a window of 2024-01-01" in " ".join(
        run("close", "hourly", "2024-01-01-09", "--by", "anna", "--reason", "test", code=2).output.split()
    )


def test_a_period_without_a_number_is_answered_with_the_nearest_ones(run: Any, client: TestClient) -> None:
    nearest = "nothing of hourly has been published for 2024-01-05; the nearest that is published: 2024-01-01"
    assert get_json(client, "/metrics/hourly", 404, window="2024-01-05")["detail"] == nearest
    assert f"{run('show', 'hourly', '2024-01-05', code=1).exception}" == nearest
    typed = f"{run('history', 'hourly', '2024-01-05-09', code=1).exception}"
    assert typed == nearest.replace("2024-01-05", "2024-01-05-09", 1)


def test_the_page_of_a_closed_day_shows_its_number_and_not_its_adjustment(lake: Lake) -> None:
    adjusted = metric("hourly", window={"size": "PT1H"}, live=True, publication={"after_close": "adjust"})
    with without_spark():
        made = ScriptedNumbers(lake, adjusted)
        for number, totals in ((20, {1: 1260}), (21, {1: 1253})):
            made.by_day[FIRST] = of_hours(totals)
            made.at(number)
            made.publish(1)
        assert [line[0] for line in made.history(1)] == ["r1", "r1.a1"]
        stream(lake, {1: 1260})
        with api_client(lake, catalog(adjusted)) as client:
            page = client.get(f"/page/metrics/hourly/{FIRST}/live").text
    assert "1,260" in page
    assert "-7" not in page
