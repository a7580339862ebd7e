"""One odd file stops no other: a name that is no UTF-8, a file that cannot be read, a circle of links, a replaced file."""

from __future__ import annotations

import os
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakehouse.bronze import landing, pending_files, table
from lakehouse.bronze.pending_files import UnfinishedFiles
from lakehouse.ledger import ingestions
from lakehouse_tests.support.lake import SampleLake, contract, csv_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake

DAY = date(2024, 2, 1)
ROWS = csv_file(["a,1,2024-01-01T12:00:00Z,2024-02-01T06:00:00Z,,,0"])


@pytest.fixture
def sample(lake: Lake) -> SampleLake:
    sample = SampleLake(lake, contract(), lambda: pytest.fail("no Spark"))  # type: ignore[arg-type]
    sample.deliver(DAY, ROWS)
    return sample


def names(sample: SampleLake) -> list[str]:
    return [file.name for file in landing.listing(sample.lake, sample.contract).files]


@pytest.mark.parametrize("matches", [True, False])
def test_a_name_that_is_no_utf_8_is_named_if_it_matches(sample: SampleLake, matches: bool) -> None:
    start = b"arrival_date=2024-02-01-\xff" if matches else b"notes-\xff"
    Path(os.fsdecode(os.fsencode(str(sample.lake.settings.landing)) + b"/" + start + b".csv")).write_bytes(ROWS)
    listed = landing.listing(sample.lake, sample.contract)
    assert names(sample) == ["arrival_date=2024-02-01.csv"]
    assert [text.split(":")[0] for text in listed.complaints] == ([r"arrival_date=2024-02-01-\xff.csv"] if matches else [])
    assert len(sample.ingest(DAY).ingested) == 1


def held(sample: SampleLake) -> list[str]:
    return [entry.source_file for entry in ingestions.still_held(ingestions.all_of(sample.lake, "events"))]


def test_a_held_file_that_is_gone_from_landing_holds_nothing_until_it_is_back(sample: SampleLake) -> None:
    broken = sample.deliver(date(2024, 2, 2), b"id\n1\n")
    content = broken.read_bytes()
    for hour in range(0, 6, 3):  # it may happen again
        sample.lake.settings.now = datetime(2024, 3, 1, hour, tzinfo=timezone.utc)
        assert len(sample.ingest(date(2024, 2, 2)).held) == 1
        assert held(sample) == [broken.name]
        broken.unlink()
        sample.lake.settings.now += timedelta(hours=1)
        assert [entry.source_file for entry in pending_files.gone_files(sample.lake, sample.contract)] == [broken.name]
        sample.ingest(DAY)
        assert held(sample) == [], "a run of any day records it"
        broken.write_bytes(content)


def test_a_held_file_is_not_gone_because_the_landing_folder_is(sample: SampleLake) -> None:
    sample.deliver(DAY, b"id\n1\n").with_name("other").write_text("")
    sample.ingest(DAY)
    folder = Path(str(sample.lake.settings.landing))
    folder.rename(folder.with_name("elsewhere"))
    assert pending_files.gone_files(sample.lake, sample.contract) == []
    folder.mkdir()
    assert pending_files.gone_files(sample.lake, sample.contract) == [], "a disk that is not mounted"
    (folder / "any").write_text("")
    assert len(pending_files.gone_files(sample.lake, sample.contract)) == 1
    stage = Path(sample.lake.root, "stages", "v2", "landing", "events")
    stage.mkdir(parents=True)
    (stage / "any").write_text("")
    assert pending_files.gone_files(sample.lake.with_settings(landing=str(stage)), sample.contract) == []


def test_a_file_that_a_person_gave_up_is_not_tried_again_until_it_changes(sample: SampleLake) -> None:
    broken = sample.deliver(DAY, b"id\n1\n")
    assert len(sample.ingest(DAY).held) == 1
    sample.lake.settings.now += timedelta(hours=1)
    ingestions.give_up(sample.lake, "events", broken.name, "anna", "the sender has no other")
    assert sample.ingest(DAY).held == []
    assert held(sample) == []
    sample.lake.settings.now += timedelta(hours=1)
    broken.write_bytes(b"id,more\n1,2\n")
    assert len(sample.ingest(DAY).held) == 1
    assert held(sample) == [broken.name]


def test_links_to_folders_are_not_followed_and_links_to_files_are(sample: SampleLake, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.csv").write_bytes(ROWS)
    Path(str(sample.lake.settings.landing), "circle").symlink_to(".")
    Path(str(sample.lake.settings.landing), "arrival_date=2024-02-02.csv").symlink_to(tmp_path / "elsewhere.csv")
    Path(str(sample.lake.settings.landing), "arrival_date=2024-02-03.csv").symlink_to(tmp_path / "nowhere.csv")
    assert names(sample) == ["arrival_date=2024-02-01.csv", "arrival_date=2024-02-02.csv"]


@pytest.mark.parametrize(
    ("pattern", "folder", "complains"),
    [
        ("{arrival_date}/*.csv", "2024-02-02", True),
        ("{arrival_date}/*.csv", "", True),
        ("{arrival_date}/*.csv", "lost+found", False),
        ("eu/{arrival_date}/*.csv", "eu", True),
        ("eu/{arrival_date}/*.csv", "eu/2024-02-02", True),
        ("eu/{arrival_date}/*.csv", "us", False),
        ("*/{arrival_date}.csv", "any", True),
    ],
)
def test_a_folder_that_cannot_be_read_is_named_if_it_may_hold_files_of_the_source(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, pattern: str, folder: str, complains: bool
) -> None:
    source = contract(source={"landing": pattern, "start_date": "2024-01-01"})
    denied = Path(lake.landing_of("events"), folder)
    denied.mkdir(parents=True, exist_ok=True)
    scan = os.scandir

    def scandir(path: str) -> object:
        if Path(path) == denied:
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)  # root may read any folder, so that its mode does not matter
    named = f"{folder}/" if folder else f"{denied}"
    complaints = [f"{named}: the folder cannot be read, nor the files in it; let this user read it"] if complains else []
    assert landing.listing(lake, source).complaints == complaints
    if folder.endswith("2024-02-02"):
        assert landing.listing_of_days(lake, source, [date(2024, 2, 2)]).complaints == complaints


def test_a_file_that_cannot_be_read_is_left_with_a_remark(sample: SampleLake, monkeypatch: pytest.MonkeyPatch) -> None:
    sample.deliver(DAY, ROWS.replace(b"a,", b"b,"), ".other.csv")
    opened = landing.open_file

    def denied(lake: Lake, source: object, path: str, **how: bool) -> object:
        if path.endswith(".other.csv"):
            raise PermissionError(13, "Permission denied", path)
        return opened(lake, source, path, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(landing, "open_file", denied)
    report = sample.ingest(DAY)
    assert [entry.source_file for entry in report.ingested] == ["arrival_date=2024-02-01.csv"]
    assert report.waiting == ["arrival_date=2024-02-01.other.csv is left: it cannot be read (Permission denied)"]
    assert pending_files.unfinished(sample.lake, sample.contract, DAY, [sample.contract]) == UnfinishedFiles(
        [], ["arrival_date=2024-02-01.other.csv: it cannot be read (Permission denied)"], []
    )


@pytest.mark.parametrize("how", ["replaced", "replaced under the old size and time", "removed"])
def test_a_file_that_changes_behind_its_hash_is_left_and_the_others_are_taken(
    sample: SampleLake, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    sample.deliver(DAY, ROWS.replace(b"a,", b"b,"), ".other.csv")
    sample.deliver(DAY, ROWS, ".same.csv")  # of the content that is gone before it was read from the first file
    hashed = landing.fingerprint

    def then_changed(lake: Lake, source: object, file: landing.LandingFile) -> landing.Fingerprint:
        fingerprint = hashed(lake, source, file)  # type: ignore[arg-type]
        path = Path(file.path)
        if path.name == "arrival_date=2024-02-01.csv" and path.read_bytes() == ROWS:
            before = path.stat()
            path.write_bytes(ROWS.replace(b"a,1", b"a,7"))
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + (10**9 if how == "replaced" else 0)))
            if how == "removed":
                path.unlink()
        return fingerprint

    monkeypatch.setattr(landing, "fingerprint", then_changed)
    report = sample.ingest(DAY)
    assert [entry.source_file for entry in report.ingested] == [f"arrival_date=2024-02-01.{one}.csv" for one in ("other", "same")]
    left = [] if how == "removed" else ["arrival_date=2024-02-01.csv is left: it was replaced or removed while it was read"]
    assert report.waiting == left
    assert sorted(row["amount"] for row in sample.bronze("amount")) == [1, 1]
    monkeypatch.undo()
    assert len(sample.ingest(DAY).ingested) == (how != "removed")
    assert sorted(row["amount"] for row in sample.bronze("amount")) == ([1, 1] if how == "removed" else [1, 1, 7])


@pytest.mark.merge
@pytest.mark.spark
def test_a_file_that_changes_while_spark_reads_it_is_left_and_the_others_are_taken(
    lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.settings.local_rows = 0  # every file is large
    sample = SampleLake(lake, contract(), spark)
    replaced = sample.deliver(DAY, ROWS)
    sample.deliver(DAY, ROWS.replace(b"a,", b"b,"), ".other.csv")
    tasks = table._tasks

    def then_replaced(*arguments: object) -> object:
        if replaced.read_bytes() == ROWS:
            replaced.write_bytes(ROWS.replace(b"a,1", b"a,77"))
        return tasks(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(table, "_tasks", then_replaced)
    report = sample.ingest(DAY)
    assert [entry.source_file for entry in report.ingested] == ["arrival_date=2024-02-01.other.csv"]
    assert report.waiting == ["arrival_date=2024-02-01.csv is left: it was replaced or removed while it was read"]
    assert [row["amount"] for row in sample.bronze("amount")] == [1]
