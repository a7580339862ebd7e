"""Walks through the product (``docs/walks.py``): what is a stop, in which order, and where a walk ends."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

CHECKOUT = Path(__file__).resolve().parents[1]
HEADER = "from lakehouse.lake import Lake\n"


@pytest.fixture(scope="module")
def walks() -> Any:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("walks", CHECKOUT / "docs" / "walks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["walks"] = module  # its dataclasses look for it there
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def walk(walks: Any, tmp_path: Path) -> Callable[..., Any]:
    """Walks through a product of modules that a test writes, from ``begin`` of the module ``start.main``."""

    def of(**modules: str) -> Any:
        texts = {"lake": "class Lake:\n    def table(self): ...\n    def cached(self) -> Lake: ...\n", **modules}
        for name, text in texts.items():
            path = tmp_path / "lakehouse" / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text if name == "lake" else HEADER + text)
        return walks.Walk(walks.Code(tmp_path), "lakehouse.start.main:begin")

    return of


def stops(walked: Any) -> list[str]:
    return [stop.node.name for stop in walked.stops]


LOGS = "def first(lake: Lake):\n    second(lake, 1)\ndef second(lake: Lake, n): ...\ndef third(number): ...\n"


def test_calls_that_take_the_lake_are_stops_in_the_order_of_the_code_and_bodies_are_walked_once(walk: Callable[..., Any]) -> None:
    begin = (
        "from lakehouse.logs import rows\n"
        "def begin(lake: Lake):\n"
        "    rows.third(rows.second(lake, 0))\n"
        "    own(lake)\n"
        "    rows.first(lake)\n"
        "    rows.first(lake)\n"
        "    lake.table()\n"
        "def own(lake: Lake): ...\n"
    )
    walked = walk(start__main=begin, logs__rows=LOGS)
    assert stops(walked) == ["begin", "second", "own", "first", "second", "first"]
    assert walked.changes() == 3


def test_the_lake_is_found_in_variables_results_and_objects(walk: Callable[..., Any]) -> None:
    begin = (
        "from lakehouse.logs.rows import Reader, first, second\n"
        "def opened() -> tuple[Lake, int]: ...\n"
        "def begin(name):\n"
        "    lake, number = opened()\n"
        "    kept = lake.cached()\n"
        "    reader = Reader(kept)\n"
        "    reader.read()\n"
        "    second(number, number)\n"
    )
    reader = (
        "class Base:\n    def read(self):\n        self.inner()\n    def inner(self):\n        first(self._lake)\n"
        "class Reader(Base):\n    def __init__(self, lake: Lake):\n        self._lake = lake.cached()\n"
        "    def inner(self):\n        second(self._lake, 1)\n"
    )
    walked = walk(start__main=begin, logs__rows=LOGS + reader)
    assert stops(walked)[:3] == ["begin", "__init__", "read"]


def test_functions_that_are_passed_on_are_called_there_and_what_runs_later_is_not_walked(walk: Callable[..., Any]) -> None:
    begin = (
        "import dagster as dg\n"
        "from anyio import in_thread\n"
        "from lakehouse.logs import rows\n"
        "def begin(lake: Lake) -> dg.Definitions:\n"
        "    def later():\n"
        "        rows.second(lake, 1)\n"
        "    asset(lake)\n"
        "    in_thread(rows.first, lake)\n"
        "def asset(lake: Lake) -> dg.AssetsDefinition: ...\n"
    )
    assert stops(walk(start__main=begin, logs__rows=LOGS)) == ["begin", "second", "first", "second"]


def test_a_walk_that_calls_itself_ends(walk: Callable[..., Any]) -> None:
    assert stops(walk(start__main="def begin(lake: Lake):\n    begin(lake)\n")) == ["begin", "begin"]


def test_a_walk_without_the_lake_is_refused(walk: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="meets no call that takes the lake"):
        walk(start__main="def begin(lake: Lake):\n    print(lake)\n")
