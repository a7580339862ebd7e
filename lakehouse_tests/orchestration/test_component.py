"""A component in a project of a user's own: its keys, and assets that wait for final or restated numbers."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest
from dagster.components.testing import create_defs_folder_sandbox

import lakehouse
from lakehouse.contracts import load_catalog
from lakehouse.orchestration import run_events
from lakehouse.orchestration.build import build_definitions
from lakehouse.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

CATALOG = load_catalog(None)


@pytest.fixture(name="prefix")
def _prefix(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setitem(os.environ, "LAKEHOUSE_ASSET_KEY_PREFIX", "analytics/lake")
    run_events._key_prefix.cache_clear()
    yield "analytics/lake"
    monkeypatch.undo()
    run_events._key_prefix.cache_clear()


def keys_of(definitions: dg.Definitions) -> set[str]:
    return {key.to_user_string() for key in definitions.resolve_asset_graph().get_all_asset_keys()}


def test_all_keys_begin_with_the_prefix_and_tables_are_called_as_without(prefix: str, tmp_path: Path) -> None:
    keys = build_definitions(Settings(root=str(tmp_path)), CATALOG).resolve_asset_graph().get_all_asset_keys()
    assert keys
    assert {key.to_user_string().removeprefix(f"{prefix}/") for key in keys} == {run_events.table_of(key) for key in keys}
    assert all(key.to_user_string().startswith(f"{prefix}/") for key in keys)


def test_owners_are_addresses_or_teams() -> None:
    assert run_events.owners_of("anna@example.org", "data platform", "", "data platform") == [
        "anna@example.org",
        "team:data_platform",
    ]


@pytest.mark.parametrize(("name", "condition"), [("final", lakehouse.when_final), ("restated", lakehouse.when_restated)])
def test_an_asset_follows_exactly_the_days_that_became_final_or_were_restated(
    name: str, condition: object, tmp_path: Path
) -> None:
    settings = Settings(root=str(tmp_path), finality_assets=True)
    lake = build_definitions(settings, CATALOG)
    days = lake.resolve_asset_graph().get(dg.AssetKey(["gold", "revenue"])).partitions_def

    @dg.asset(deps=[dg.AssetKey([name, "revenue"])], partitions_def=days, automation_condition=condition("revenue"))  # type: ignore[operator]
    def report() -> None:
        """A report of a user's own."""

    definitions = dg.Definitions.merge(lake, dg.Definitions(assets=[report]))
    at, cursor, requested = datetime(2024, 11, 20, tzinfo=timezone.utc), None, []
    with dg.DagsterInstance.ephemeral() as instance:
        for key, day in ((name, None), ("gold", "2024-11-04"), (name, "2024-11-05"), (name, None)):
            if day:
                instance.report_runless_asset_event(dg.AssetMaterialization([key, "revenue"], partition=day))
            result = dg.evaluate_automation_conditions(
                definitions, instance, dg.AssetSelection.assets("report"), evaluation_time=at, cursor=cursor
            )
            cursor = result.cursor
            requested.append(sorted(result.get_requested_partitions(dg.AssetKey("report"))))
    assert requested == [[], [], ["2024-11-05"], []]


def test_a_component_is_scaffolded_with_an_example_and_loads(tmp_path: Path) -> None:
    with create_defs_folder_sandbox(project_name="mine") as sandbox:
        path = sandbox.scaffold_component(component_cls=lakehouse.LakehouseComponent, defs_path="lake")
        assert sorted(file.name for file in (path / "contracts").iterdir()) == ["orders.yaml", "orders_daily.yaml"]
        with sandbox.build_all_defs() as definitions:
            assert {"bronze/orders", "gold/orders_daily", "final/orders_daily", "restated/orders_daily"} <= keys_of(definitions)
        (path / "defs.yaml").write_text(
            "type: lakehouse.LakehouseComponent\nattributes: {contracts: contracts, executor: false, finality: false}\n"
        )
        with sandbox.build_all_defs() as definitions:
            assert definitions.executor is None
            assert not any(key.startswith("final/") for key in keys_of(definitions))


def test_names_of_a_users_project_are_found_in_the_package() -> None:
    assert {"LakehouseComponent", "when_final", "when_restated", "final_key", "restated_key", "run"} <= {*dir(lakehouse)}
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = lakehouse.nothing
