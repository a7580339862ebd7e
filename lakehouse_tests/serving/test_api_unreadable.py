"""One table that cannot be read stops its own metric only, and is named with the way out."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakehouse.contracts import Catalog
from lakehouse_tests.support.api_client import api_client, get_json, on, publish_two_days
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, metric, without_spark

MISSING = "the table gold/total cannot be read: a data file is missing or cut off; 'lakehouse admin repair' makes it again"


def break_table(folder: Path, how: str) -> None:
    if how == "log":
        newest = max(folder.glob("_delta_log/*.json"))
        newest.write_bytes(newest.read_bytes()[:-80])
    for name in DeltaTable(folder).file_uris() if how != "log" else ():
        file = folder / name
        if how == "missing":
            file.unlink()
        else:
            file.write_bytes(file.read_bytes()[: 0 if how == "empty" else -50])


@pytest.mark.merge
@pytest.mark.parametrize("how", ["missing", "empty", "cut", "log"])
def test_the_other_metrics_go_on(tmp_path: Path, how: str) -> None:
    lake = lake_in(tmp_path)
    with without_spark():
        for name in ("total", "other"):
            numbers = publish_two_days(ScriptedNumbers(lake, metric(metric=name, publication={"rollups": ["week"]})))
    broken, whole = metric(metric="total", publication={"rollups": ["week"]}), numbers.metric
    break_table(Path(lake.table("gold", "total").address), how)
    catalog = Catalog({"events": contract()}, {"total": broken, "other": whole})
    with api_client(lake, catalog) as client:
        problem = get_json(client, f"/metrics/total?window={on(1)}", 503)
        assert problem["table"] == "gold/total"
        detail = problem["detail"]
        assert detail == MISSING if how != "log" else detail.startswith("the table gold/total cannot be read: its log is damaged")
        assert str(tmp_path) not in detail
        assert get_json(client, f"/metrics/other?window={on(1)}")["result"] is not None
        listed = get_json(client, "/metrics")
        assert [one["name"] for one in listed["metrics"]] == ["other"]
        assert listed["unreadable"] == [{"metric": "total", "detail": detail}]
        restated = get_json(client, f"/data-quality/restatements?start_date={on(1)}&end_date={on(9)}")
        assert restated["unreadable"] == listed["unreadable"]
        assert {one["metric"] for one in restated["restatements"]} == {"other"}
        for page in ("/", f"/page/restated?through={on(5)}"):
            answer = client.get(page)
            assert answer.status_code == 200
            assert "cannot be read" in answer.text
            assert "gold/total" in answer.text
        assert client.get("/page/metrics/other").status_code == 200
        assert "The table gold/total cannot be read" in client.get("/page/metrics/total").text
        assert get_json(client, "/health", 503)["table"] == "gold/total"
