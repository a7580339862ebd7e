"""Two corrections of one original: found whatever their order, their chain and their days; by files that need no Spark."""

from __future__ import annotations

from collections import defaultdict
from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.ledger import applied_inputs
from lakehouse.silver import checks, competing_corrections
from lakehouse.silver import update as silver_update
from lakehouse_tests.support.ingested_files import deliver_files
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.lake_settings import lake_settings
from lakehouse_tests.support.laws import law

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lakehouse.settings import Settings

KEYS = "abcdef"
#: A record: its key, the key of the record that it corrects (its own for an insert), and its day of January.
Record = tuple[str, str, int]


def arrive(settings: Settings, number: int, records: Sequence[Record]) -> None:
    """Ingest a file of records and bring silver up to date."""
    lines = []
    for line, (key, named, day) in enumerate(records):
        op = "insert" if key == named else "correct"
        lines.append(f"{key},1,2024-01-0{day}T12:00:00Z,2024-02-01T{number:02}:00:{line:02}Z,{op},{named},0")
    deliver_files(settings, contract(), date(2024, 2, 1) + timedelta(days=number), {"x": lines})
    waiting = set(applied_inputs.pending(settings, "events"))
    silver_update.update(settings, contract(), lambda: pytest.fail("few rows need no Spark"), waiting, f"run {number}")


def competing(settings: Settings, *days: int) -> list[list[str]]:
    table = table_io.open_table(locations.silver(settings, "events"))
    assert table is not None
    wanted = [date(2024, 1, day) for day in days]
    groups = competing_corrections.competing(settings, contract(), table, wanted)
    return sorted(sorted(one.key for one in group) for group in groups)


def test_a_chain_is_no_competition_and_two_corrections_of_one_original_are(tmp_path: Path) -> None:
    settings = lake_settings(tmp_path)
    arrive(settings, 0, [("a", "a", 1), ("x", "x", 1)])
    arrive(settings, 1, [("b", "a", 1)])
    arrive(settings, 2, [("c", "b", 2)])
    assert competing(settings, 1, 2) == []
    arrive(settings, 3, [("d", "x", 1), ("e", "x", 3)])
    assert competing(settings, 1) == [["d", "e"]]
    assert competing(settings, 2) == []
    assert competing(settings, 3) == [["d", "e"]]
    [failed] = [each for each in checks.check_silver(settings, contract(), [date(2024, 1, 1)]) if each.check == "one_correction"]
    assert not failed.passed
    assert "d and e correct the same original, and all of them count" in f"{failed.explanation}"


def test_a_correction_of_a_correction_competes_with_a_later_one_of_the_original(tmp_path: Path) -> None:
    settings = lake_settings(tmp_path)
    arrive(settings, 0, [("d", "x", 1), ("e", "x", 1), ("x", "x", 1)])
    arrive(settings, 1, [("f", "d", 1)])
    assert competing(settings, 1) == [["e", "f"]]


@law(50, in_each_run=6)
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS), st.integers(1, 3)), min_size=1, max_size=4),
        min_size=1,
        max_size=3,
    )
)
def test_the_groups_are_those_of_all_records(tmp_path_factory: pytest.TempPathFactory, files: list[list[Record]]) -> None:
    settings = lake_settings(tmp_path_factory.mktemp("lake"))
    for number, records in enumerate(files):
        arrive(settings, number, records)
    rows = table_io.read(locations.silver(settings, "events"), ["record_key", "corrects_key"])
    living = {row["record_key"]: row["corrects_key"] for row in ([] if rows is None else rows.to_pylist())}
    group = {key: {key} for key in KEYS}
    for key, named, _ in (record for records in files for record in records):
        together = group[key] | group[named]
        group |= dict.fromkeys(together, together)
    corrections = defaultdict[frozenset[str], list[str]](list)
    for key, named in living.items():
        if named not in (None, key):
            corrections[frozenset(group[key])].append(key)
    assert competing(settings, 1, 2, 3) == sorted(sorted(keys) for keys in corrections.values() if len(keys) > 1)
