"""What importing a module loads: the import contracts hold for the whole process, third-party packages included."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from importlinter import api

_PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
_CONTRACT = "Reading needs no Spark"
_IMPORT = """
import importlib, pkgutil, sys
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(getattr(package, "__path__", []), f"{name}."):
        importlib.import_module(module.name)
print(*sorted({name.partition(".")[0] for name in sys.modules} & {"pyspark", "py4j", "delta", "dagster"}))
"""


def _loaded(*packages: str) -> list[str]:
    """Which of Spark, delta-spark and Dagster a new process has loaded after it imported some packages."""
    process = subprocess.run([sys.executable, "-c", _IMPORT, *packages], capture_output=True, text=True, check=True)
    return process.stdout.split()


def test_the_application_loads_neither_spark_nor_dagster() -> None:
    assert _loaded("lakehouse.serving.app") == []


def test_packages_that_read_load_neither_spark_nor_dagster() -> None:
    contracts = api.read_configuration(str(_PYPROJECT))["contracts_options"]
    (packages,) = [contract["source_modules"] for contract in contracts if contract["name"] == _CONTRACT]
    assert "lakehouse.serving" in packages
    assert _loaded(*packages) == []


def test_spark_is_noticed() -> None:
    assert "pyspark" in _loaded("lakehouse.spark")
