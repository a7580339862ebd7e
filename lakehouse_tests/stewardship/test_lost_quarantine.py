"""The quarantine and the account lose their newest commits, are older copies, or are gone: the next reader derives them again."""

from __future__ import annotations

import shutil
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from lakehouse import locations
from lakehouse.contracts import Catalog
from lakehouse.dispositions import account_tables
from lakehouse.gold.restatement import closing
from lakehouse.ledger import ingestions
from lakehouse.ledger.row_states import StewardVerdict
from lakehouse.operations import damaged_tables
from lakehouse_tests.support.damaged_lake import DamagedLake, damage
from lakehouse_tests.support.lake import SampleLake, contract, csv_file
from lakehouse_tests.support.quarantine_lake import (
    FIRST_FILE,
    LATE,
    ON_TIME,
    SECOND_FILE,
    WEEK_WATERMARK,
    decide,
    dispositions_by_key,
    lake_with,
    quarantine_statuses,
)
from lakehouse_tests.support.stopped_commits import Killed, kill_after

if TYPE_CHECKING:
    from lakehouse.lake import Lake, Table

QUARANTINE, ACCOUNT = "silver/events_quarantine", "ops/events_dispositions"
HOW = ["delete 1", "delete 2", "empty", "copy 0", "copy 1", "gone"]
#: In each run; the others are in the merge tier.
FEW = ["copy 1", "gone"]
EACH = [pytest.param(how, marks=() if how in FEW else pytest.mark.merge) for how in HOW]


def sample_with_waiting_rows(lake: Lake) -> SampleLake:
    """b and c wait; c is accepted. Copies: before the rows came, and before the decision."""
    sample = lake_with(lake, None, WEEK_WATERMARK, (ON_TIME, FIRST_FILE))
    shutil.copytree(lake.root, Path(lake.root).parent / "copies/0")
    sample = lake_with(lake, None, WEEK_WATERMARK, (LATE, SECOND_FILE))
    shutil.copytree(lake.root, Path(lake.root).parent / "copies/1")
    decide(sample, StewardVerdict.REJECT, "c")
    arrive(sample, "e")
    return sample


def arrive(sample: SampleLake, key: str) -> None:
    """A row on time; only its day of silver is updated, by a merge."""
    day = LATE + timedelta(days="ef".index(key) + 1)
    sample.deliver(day, csv_file([f"{key},5,{day}T06:00:00Z,{day}T12:00:00Z,insert,,0"]), f"_{key}.csv")
    sample.ingest(day)
    sample.update([day])


def lose(lake: Lake, table: str, how: str) -> None:
    if how == "copy 0" and table == QUARANTINE:  # there was none
        how = "gone"
    damage(DamagedLake(Path(lake.root).parent, {}), table, how)


def rows_of(table: Table) -> list[dict[str, Any]]:
    rows = table.read()
    return [] if rows is None else sorted(rows.to_pylist(), key=lambda row: (row["ingestion_id"], row["line_number"]))


@pytest.mark.parametrize("how", EACH)
def test_a_day_waits_for_the_rows_of_a_quarantine_that_has_lost_them(lake: Lake, how: str) -> None:
    sample = sample_with_waiting_rows(lake)
    before = rows_of(locations.quarantine(lake, "events"))
    lose(lake, QUARANTINE, how)
    assert closing.read_source(lake, sample.contract).undecided == {ON_TIME: 1}
    assert rows_of(locations.quarantine(lake, "events")) == before


def test_a_list_shows_the_waiting_rows_and_later_commits_are_kept(lake: Lake) -> None:
    sample = sample_with_waiting_rows(lake)
    lose(lake, QUARANTINE, "gone")
    assert quarantine_statuses(sample) == {"b": "open", "c": "rejected"}
    decide(sample, StewardVerdict.ACCEPT, "b")
    arrive(sample, "f")
    version = locations.quarantine(lake, "events").version()
    assert quarantine_statuses(sample) == {"b": "accepted", "c": "rejected"}
    assert locations.quarantine(lake, "events").version() == version, "nothing is derived twice"


@pytest.mark.parametrize("how", EACH)
def test_the_next_run_of_silver_derives_an_account_that_has_lost_rows(lake: Lake, how: str) -> None:
    sample = sample_with_waiting_rows(lake)
    before = rows_of(locations.dispositions(lake, "events"))
    lose(lake, ACCOUNT, how)
    sample.update([])
    assert rows_of(locations.dispositions(lake, "events")) == before
    dispositions_by_key(sample)


@pytest.mark.merge
@pytest.mark.parametrize("table", [QUARANTINE, ACCOUNT])
def test_a_derivation_that_is_stopped_after_any_commit_is_repeated(lake: Lake, table: str) -> None:
    sample = sample_with_waiting_rows(lake)
    before = [rows_of(path) for path in account_tables.both(lake, "events")]
    lose(lake, table, "gone")
    for last in count(1):
        with pytest.MonkeyPatch.context() as patched:
            kill_after(patched, last)
            try:
                account_tables.restore(lake, sample.contract)
            except Killed:
                continue
        break
    assert last > 2, "it was stopped after each commit"
    assert [rows_of(path) for path in account_tables.both(lake, "events")] == before
    assert not account_tables.restore(lake, sample.contract), "nothing is derived twice"


def test_nothing_is_derived_from_a_key_log_that_has_lost_rows_as_well(lake: Lake) -> None:
    sample = sample_with_waiting_rows(lake)
    lose(lake, QUARANTINE, "gone")
    lose(lake, "ops/events_keys", "delete 1")
    with pytest.raises(ingestions.LostRowsError, match="the key log of events has lost"):
        closing.read_source(lake, sample.contract)
    sample.ingest(LATE)
    assert closing.read_source(lake, sample.contract).undecided == {ON_TIME: 1}


@pytest.mark.parametrize(
    ("table", "how"),
    [
        (QUARANTINE, "a file is missing"),
        pytest.param(ACCOUNT, "a file is missing", marks=pytest.mark.merge),
        pytest.param(QUARANTINE, "copy 0", marks=pytest.mark.merge),
        pytest.param(ACCOUNT, "copy 0", marks=pytest.mark.merge),
    ],
)
def test_a_repair_derives_both_tables_again(lake: Lake, table: str, how: str) -> None:
    sample, catalog = sample_with_waiting_rows(lake), Catalog({"events": contract(**WEEK_WATERMARK)}, {})
    before = [rows_of(path) for path in account_tables.both(lake, "events")]
    if how == "copy 0":
        lose(lake, table, how)
    else:
        files = DeltaTable(f"{lake.root}/{table}").file_uris()
        Path(max(files)).unlink()
    [damaged] = damaged_tables.find(lake, catalog)
    assert f"{damaged}".startswith(table)
    assert f"{damaged}".endswith("'lakehouse admin repair' derives the table again.")
    done = list(damaged_tables.repair(lake, catalog, lambda: sample.spark, "mend"))
    assert done == [("silver/events_quarantine: made again: all rows, and those of ops/events_dispositions", True)]
    assert damaged_tables.find(lake, catalog) == []
    assert [rows_of(path) for path in account_tables.both(lake, "events")] == before


def test_a_damaged_record_of_silver_does_not_hide_what_is_damaged(lake: Lake) -> None:
    sample_with_waiting_rows(lake)
    [*_, file] = DeltaTable(f"{lake.root}/ops/applications").file_uris()
    Path(file).write_bytes(Path(file).read_bytes()[:-100])
    [damaged] = damaged_tables.find(lake, Catalog({"events": contract(**WEEK_WATERMARK)}, {}))
    assert f"{damaged}".startswith("ops/applications: the data file ")
