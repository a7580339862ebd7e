"""What a steward's decision leaves behind: the same numbers, audit and events of Dagster, in this process and by Spark."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
import yaml

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts import load_catalog
from lakehouse.contracts.series import Series
from lakehouse.lake import Lake
from lakehouse.ledger import publications
from lakehouse.ledger.row_states import StewardVerdict
from lakehouse.orchestration.execution.catch_up import catch_up
from lakehouse.orchestration.execution.in_process import InProcess
from lakehouse.settings import Settings
from lakehouse.silver import audit_log
from lakehouse.stewardship import quarantine
from lakehouse.stewardship.quarantine import QuarantineFilter
from lakehouse.stewardship.redact import redact_fields

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lakehouse.contracts import Catalog

pytestmark = [pytest.mark.merge, pytest.mark.spark, pytest.mark.usefixtures("spark")]

NOW = datetime(2024, 2, 20, 12, tzinfo=timezone.utc)
LATE = date(2024, 1, 5)
SOURCE = {
    "dataset": "orders",
    "primary_key": ["id"],
    "model": {"fields": [{"name": "id", "type": "string"}, {"name": "amount", "type": "decimal(12,2)"}]},
    "source": {"landing": "orders_{arrival_date}.csv", "start_date": "2024-01-01"},
    "clocks": {"event": "at", "arrival": "arrived", "watermark": {"strategy": "bounded", "max_lateness": "P3D"}},
    "lateness": {"expected": "P1D", "watermark": "P3D", "beyond": "quarantine"},
}
METRIC = {
    "metric": "sales",
    "source": "orders",
    "measures": [
        {"name": "orders", "sql": "count(*)", "type": "long", "additive": True},
        {"name": "amount", "sql": "sum(amount)", "type": "decimal(38,2)", "additive": True},
    ],
    "publication": {"rollups": ["month"], "after_close": "restate"},
}
#: The metadata that does not name a run, a version of a table or a moment.
SHOWN = {"content_changed", "restated", "held", "engine", "version", "state", "reason", "trigger", "validation"}


def deployed(folder: Path, **settings: Any) -> tuple[Lake, Catalog]:
    """Two months of orders; one of the second delivery was sent weeks late."""
    for name, content in (("orders", SOURCE), ("sales", METRIC)):
        path = folder / "contracts" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(content), "utf-8")
    landing = folder / "landing"
    landing.mkdir()
    days = [date(2024, month, day) for month, last in ((1, 31), (2, 18)) for day in range(1, last + 1)]
    first = [f"{day:%m%d},1.50,{day}T10:00:00Z,{day}T11:00:00Z" for day in days]
    for number, rows in ((19, first), (20, [f"late,7.25,{LATE}T10:00:00Z,2024-02-20T10:00:00Z"])):
        (landing / f"orders_2024-02-{number}.csv").write_text("id,amount,at,arrived\n" + "\n".join(rows) + "\n")
    lake = Lake(Settings(root=f"{folder}/lake", landing=f"{landing}", now=NOW, **settings))
    return lake, load_catalog(folder / "contracts", bundled=False)


def numbers_of(lake: Lake, series: Series) -> list[dict[str, Any]]:
    """Each revision of a series with all that it says, but for its ids, and silver's version: Spark may write more files, which a
    commit of its own joins.
    """
    rows = locations.gold(lake, series).read()
    assert rows is not None
    return sorted(
        rows.drop_columns(["run_id", "publication_id", "silver_version"]).to_pylist(),
        key=lambda row: (row["period"], row["revision"]),
    )


def events_of(instance: dg.DagsterInstance, key: Sequence[str], day: date) -> tuple[dict[str, Any], dict[str, bool]]:
    """The metadata of the newest materialization of a partition, and the outcomes of its checks."""
    asset, partition = dg.AssetKey(list(key)), f"{day}"
    wanted = dg.AssetRecordsFilter(asset_key=asset, asset_partitions=[partition])
    newest = instance.fetch_materializations(wanted, limit=1).records[0]
    logs = instance.all_logs(newest.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    checks = [entry.get_dagster_event().asset_check_evaluation_data for entry in logs]
    assert all(each.target_materialization_data.storage_id == newest.storage_id for each in checks if each.partition == partition)
    made = newest.asset_materialization
    assert made is not None
    run = instance.get_run_by_id(newest.run_id)
    assert run is not None
    assert run.status is dg.DagsterRunStatus.SUCCESS
    assert run.tags["lakehouse/table"] == "/".join(key)
    metadata = {name: value.value for name, value in made.metadata.items()}
    return metadata, {each.check_name: each.passed for each in checks if each.partition == partition}


def decided(lake: Lake, catalog: Catalog, instance: dg.DagsterInstance) -> dict[str, Any]:
    """Accept the late order, redact another one, and return what readers, auditors and Dagster's users see."""
    contract, daily = catalog.sources["orders"], Series(catalog.metrics["sales"])
    layers = InProcess(lake, catalog, instance)
    layers.run(dg.AssetKey(["bronze", "orders"]), [date(2024, 2, 19), date(2024, 2, 20)])
    catch_up(lake, catalog, "orders", layers)
    (entry,) = quarantine.entries(lake, contract, QuarantineFilter())
    row = (entry["ingestion_id"], entry["line_number"])
    quarantine.decide(lake, contract, [row], StewardVerdict.ACCEPT, by="ann", reason="it was right")
    after = catch_up(lake, catalog, "orders", InProcess(lake, catalog, instance))
    assert (after.silver_days, after.restated) == ([LATE], {"sales": [LATE]})
    events = {
        "silver": events_of(instance, ["silver", "orders"], LATE),
        "gold": events_of(instance, ["gold", "sales"], LATE),
        "month": events_of(instance, ["gold", "sales_monthly"], date(2024, 1, 1)),
    }
    redact_fields(lake, contract, "0107", ["amount"], by="ann", reason="asked", metrics=[catalog.metrics["sales"]])
    catch_up(lake, catalog, "orders", InProcess(lake, catalog, instance))
    return {
        "numbers": [numbers_of(lake, series) for series in (daily, Series(daily.metric, Kind.MONTH))],
        "audit": sorted(
            audit_log.read(lake, "orders").drop_columns(["audit_id", "runner_id", "silver_version"]).to_pylist(), key=repr
        ),
        "publications": sorted(f"{each.trigger} {each.validation}" for each in publications.of(lake, "sales")),
        "events": {
            name: ({label: value for label, value in metadata.items() if label in SHOWN or label.startswith("rows_")}, checks)
            for name, (metadata, checks) in events.items()
        },
    }


def test_a_decision_means_the_same_here_and_by_spark_and_dagster_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        by_spark = decided(*deployed(tmp_path / "spark", local_rows=0), instance)
    with dg.DagsterInstance.ephemeral() as instance:
        here = decided(*deployed(tmp_path / "here"), instance)
    engines = {
        name: (metadata.pop("engine"), by_spark["events"][name][0].pop("engine"))
        for name, (metadata, _) in here["events"].items()
    }
    for name, seen in here.items():
        assert seen == by_spark[name], name
    assert engines["silver"] == engines["gold"] == ("this process", "Spark")
    metadata, checks = here["events"]["gold"]
    assert metadata["content_changed"]
    assert checks
    assert all(checks.values())
    assert here["events"]["silver"][0]["rows_inserted"] == 1
    assert here["events"]["silver"][1]["unique_key"]
    assert here["events"]["month"][0]["content_changed"]
