"""The commands of ``dg`` in a new project of ours, and our component in a project of a user's own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tenacity import Retrying, stop_after_delay, wait_fixed

from lakehouse_tests.support.cli import inherited, lakehouse_command
from lakehouse_tests.support.deployment import CHECKOUT
from lakehouse_tests.support.free_port import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.merge

PROJECT = """\
[project]
name = "mine"
version = "0.1.0"

[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "mine"
"""
DEFINITIONS = """\
from pathlib import Path

from dagster import definitions, load_from_defs_folder


@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
"""
REPORT = """\
import dagster as dg

import lakehouse


@dg.asset(
    deps=[dg.AssetKey(["gold", "orders_daily"]), lakehouse.final_key("orders_daily")],
    partitions_def=dg.DailyPartitionsDefinition("2024-11-01", end_offset=2),
    automation_condition=lakehouse.when_final("orders_daily"),
)
def report() -> None:
    pass
"""


def dg_command(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("dg")), *arguments]
    done = subprocess.run(
        command, cwd=folder, env=_environment(folder, environment), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done


def _environment(folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    path = os.pathsep.join([str(CHECKOUT), str(folder / "src"), str(folder)])
    return inherited() | {"PYTHONPATH": path, "DAGSTER_HOME": str(folder / "dagster_home")} | dict(more)


def assets(folder: Path, **environment: str) -> dict[str, dict[str, Any]]:
    listed = json.loads(dg_command(folder, "list", "defs", "--json", **environment).stdout)
    return {asset["asset_key"]: asset for asset in listed["assets"]}


def test_dg_lists_checks_launches_and_serves_a_new_project(tmp_path: Path) -> None:
    lakehouse_command(tmp_path, "init")
    lakehouse_command(tmp_path, "run", "contracts/orders.yaml", "samples/orders.csv", LAKEHOUSE_ROOT="lakehouse_data")
    assert {"bronze/orders", "silver/orders", "gold/orders_daily"} <= assets(tmp_path).keys()
    dg_command(tmp_path, "check", "defs")
    launched = dg_command(tmp_path, "launch", "--assets", 'key:"gold/orders_daily"', "--partition", "2024-11-05")
    assert "RUN_SUCCESS" in launched.stdout + launched.stderr
    port = free_port()
    with (tmp_path / "dg.log").open("wb") as log:
        served = subprocess.Popen(
            [str(Path(sys.executable).with_name("dg")), "dev", "--port", str(port)],
            cwd=tmp_path,
            env=_environment(tmp_path, {}),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        for attempt in Retrying(stop=stop_after_delay(120), wait=wait_fixed(1), reraise=True):
            with attempt:
                assert _locations(port) == ["lakehouse"]
    finally:
        os.killpg(served.pid, signal.SIGINT)
        served.wait(60)


def _locations(port: int) -> list[str]:
    query = "{workspaceOrError {... on Workspace {locationEntries {name locationOrLoadError {__typename}}}}}"
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/graphql", json.dumps({"query": query}).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            entries = json.load(response)["data"]["workspaceOrError"]["locationEntries"]
    except OSError:
        return []
    return [entry["name"] for entry in entries if entry["locationOrLoadError"]["__typename"] == "RepositoryLocation"]


def test_the_component_stands_beside_assets_of_a_users_own(tmp_path: Path) -> None:
    package = tmp_path / "src" / "mine"
    (package / "defs").mkdir(parents=True)
    (tmp_path / "dagster_home").mkdir()
    shutil.copy(CHECKOUT / "dagster_home" / "dagster.yaml", tmp_path / "dagster_home")
    for name, text in {
        "__init__.py": "",
        "definitions.py": DEFINITIONS,
        "defs/__init__.py": "",
        "defs/report.py": REPORT,
    }.items():
        (package / name).write_text(text)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    environment = {"LAKEHOUSE_ROOT": str(tmp_path / "lake")}
    dg_command(tmp_path, "scaffold", "defs", "lakehouse.LakehouseComponent", "lake")
    with (package / "defs" / "lake" / "defs.yaml").open("a") as defs:
        defs.write('\npost_processing:\n  assets:\n    - {target: "*", attributes: {group_name: lake, owners: ["team:data"]}}\n')
    dg_command(tmp_path, "check", "yaml", **environment)
    dg_command(tmp_path, "check", "defs", **environment)
    listed = assets(tmp_path, **environment)
    assert {"report", "bronze/orders", "gold/orders_daily", "final/orders_daily"} <= listed.keys()
    assert (listed["gold/orders_daily"]["group_name"], listed["gold/orders_daily"]["owners"]) == ("lake", [{"team": "data"}])
    assert listed["report"]["dependency_keys"] == ["final/orders_daily", "gold/orders_daily"]
    landing = tmp_path / "lake" / "landing" / "orders"
    landing.mkdir(parents=True)
    lakehouse_command(tmp_path / "dagster_home", "init")
    shutil.copy(tmp_path / "dagster_home" / "samples" / "orders.csv", landing / "arrival_date=2024-11-07.csv")
    for key, day in (("bronze/orders", "2024-11-07"), ("silver/orders", "2024-11-05"), ("gold/orders_daily", "2024-11-05")):
        dg_command(tmp_path, "launch", "--assets", f'key:"{key}"', "--partition", day, **environment)
    prefixed = assets(tmp_path, **environment, LAKEHOUSE_ASSET_KEY_PREFIX="lake")
    assert "lake/gold/orders_daily" in prefixed
    assert "gold/orders_daily" in prefixed["report"]["dependency_keys"], "a key that the user has written out"
