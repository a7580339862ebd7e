"""Every table that the product writes has an address and is listed, so that it is maintained."""

from __future__ import annotations

import re
from pathlib import Path

import lakehouse
from lakehouse import locations
from lakehouse.contracts import Catalog, load_catalog
from lakehouse.contracts.series import Series
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import metric

_TABLE = re.compile(r'lake\.table\("(\w+)", f?"([\w{}]+)"\)')
_OF = re.compile(r'= _of\("(\w+)"(?:, "(\w+)")?\)')
_SHARED = re.compile(r'= _shared\("(\w+)"\)')
_PACKAGE = Path(str(lakehouse.__file__)).parent


def test_what_the_code_writes_is_in_the_inventory() -> None:
    appended = contract(materialization={"reprocess_policy": "append"}, changes={})
    both = (appended, contract(kind="dimension", changes={}))
    known = {
        f"{one}"
        for of_kind in both
        for one in locations.every_table(Catalog({"events": of_kind}, {"total": metric(late_events={})}))
    }
    sources = [path.read_text() for path in _PACKAGE.rglob("*.py")]
    written = {f"{layer}/{name.replace('{source}', 'events')}" for text in sources for layer, name in _TABLE.findall(text)}
    page = (_PACKAGE / "locations.py").read_text()
    of_sources = [(layer, suffix) for layer, suffix in _OF.findall(page) if layer not in {"live", "scores"}]
    written |= {f"{layer}/events{suffix}" for layer, suffix in of_sources}
    written |= {f"ops/{name}" for name in _SHARED.findall(page)}
    assert len(written) > 50
    assert written <= known, "add it to locations.every_table"
    assert {"bronze/events", "silver/events", "silver/events_newest", "gold/total", "gold/total_candidates"} <= known


def test_only_a_source_under_append_has_a_table_of_newest_rows() -> None:
    assert "silver/events_newest" not in {f"{one}" for one in locations.every_table(Catalog({"events": contract()}, {}))}


def test_each_table_is_there_once_and_at_its_address(lake) -> None:
    catalog = load_catalog(None)
    tables = locations.every_table(catalog)
    assert len({f"{table}" for table in tables}) == len(tables)
    addresses = {table.of(lake) for table in tables}
    for daily in map(Series, catalog.metrics.values()):
        for series in (daily, *daily.rollups):
            assert {locations.gold(lake, series), locations.candidates(lake, series)} <= addresses
    assert [table.name for table in tables if table.silver_of] == sorted(catalog.sources)


def test_only_locations_and_generic_readers_build_addresses() -> None:
    building = {f"{path.relative_to(_PACKAGE)}" for path in _PACKAGE.rglob("*.py") if "lake.table(" in path.read_text()}
    readers_of_any_table = {"orchestration/resources.py", "examples/simulation_results.py"}
    assert building == {"locations.py", *readers_of_any_table}, (
        "take the address from lakehouse.locations (allowed: readers of any table)"
    )
