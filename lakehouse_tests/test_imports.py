"""What importing a module loads: the import contracts hold for the whole process, third-party packages included."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from importlinter import api

import lakehouse

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


#: What only the extras install: a deployment without them has metrics, commands, API and pages.
_WITHOUT_EXTRAS = """
import importlib, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"confluent_kafka", "dagster_postgres", "fastavro", "mlflow", "sklearn"}:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
sys.meta_path.insert(0, Missing())
for name in sys.argv[1:]:
    importlib.import_module(name)
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


def test_without_the_extras_everything_else_works() -> None:
    frames = ("orchestration.build", "serving.app", "cli.program", "examples.demo_commands", "operations.changes.change_list")
    command = [sys.executable, "-c", _WITHOUT_EXTRAS, *(f"lakehouse.{frame}" for frame in frames)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr


def test_spark_is_noticed() -> None:
    assert "pyspark" in _loaded("lakehouse.spark")


@pytest.mark.parametrize(
    ("private", "place"),
    [("dagster._", "orchestration/dagster_internals.py"), ("deltalake._", "lake/delta_rs_internals.py")],
)
def test_the_internals_of_a_library_are_imported_in_one_module(private: str, place: str) -> None:
    root = Path(lakehouse.__file__).parent
    importing = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if private in (code := path.read_text())
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
        if f"{name}.".startswith(private)
    }
    assert importing <= {place}


SURFACES = ("commands.py", "routes.py", "pages.py", "charts.py")
#: The modules that know where tables are, and that open, read and write them.
TABLES = (
    "lakehouse.locations",
    "lakehouse.locations",
    "lakehouse.lake.table",
    "deltalake",
)


def test_surfaces_open_no_table() -> None:
    """A surface formats an answer: the function that owns it reads the table."""
    root = Path(lakehouse.__file__).parent
    surfaces = [path for path in root.rglob("*.py") if path.name.endswith(SURFACES)]
    assert len(surfaces) > 40
    opening = {
        f"{path.relative_to(root)}: {name}"
        for path in surfaces
        for node in ast.walk(ast.parse(path.read_text()))
        for name in _names_of_import(node)
        if f"{name}.".startswith(tuple(f"{module}." for module in TABLES)) or name.startswith("lakehouse.lake.table")
    }
    assert opening == set()


def _names_of_import(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [f"{node.module}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) else []


def test_what_delta_rs_keeps_private_of_a_table_is_used_in_one_module() -> None:
    root = Path(lakehouse.__file__).parent
    using = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if "._table" in (code := path.read_text())
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Attribute) and node.attr == "_table"
    }
    assert using == {"lake/delta_rs_internals.py"}
