"""Files of a person become files of an arrival day, under names that the source's pattern takes."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakehouse.bronze import landing
from lakehouse.ledger import ingestions
from lakehouse.ledger.ingestions import Ingestion
from lakehouse.project.delivery import UndeliveredFileError, deliver
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from lakehouse.lake import Lake

DAY = date(2024, 11, 5)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("arrival_date={arrival_date}*", "arrival_date=2024-11-05.orders.csv"),
        ("arrival_date={arrival_date}*.csv", "arrival_date=2024-11-05.orders.csv"),
        ("sales/{arrival_date}/*.csv", "sales/2024-11-05/orders.csv"),
        ("{arrival_date}/part*", "2024-11-05/part.orders.csv"),
        ("{arrival_date}.csv", "2024-11-05.csv"),
    ],
)
def test_the_name_is_one_that_the_pattern_takes(lake: Lake, tmp_path: Path, pattern: str, name: str) -> None:
    source = contract(source={"landing": pattern})
    file = tmp_path / "orders.csv"
    file.write_text("id\n1\n")
    [target] = deliver(lake, source, [file], DAY)
    assert f"{target.relative_to(lake.landing_of('events'))}" == name
    files, complaints = landing.landing_files(lake, source)
    assert ([(one.arrival_date) for one in files], complaints) == ([DAY], [])
    assert deliver(lake, source, [file], DAY) == [target], "it is in its place"


def test_a_second_file_of_the_same_name_gets_a_number(lake: Lake, tmp_path: Path) -> None:
    source, file, other = contract(), tmp_path / "orders.csv", tmp_path / "more" / "orders.csv"
    other.parent.mkdir()
    file.write_text("id\n1\n")
    other.write_text("id\n2\n")
    names = [target.name for target in deliver(lake, source, [file, other], DAY)]
    assert names == ["arrival_date=2024-11-05.orders.csv", "arrival_date=2024-11-05.orders.csv.2"]
    file.write_text("id\n3\n")
    assert [target.name for target in deliver(lake, source, [file], DAY)] == ["arrival_date=2024-11-05.orders.csv.3"]


def test_a_mended_file_takes_the_place_of_its_held_copy_and_of_no_other(lake: Lake, tmp_path: Path) -> None:
    source, file = contract(), tmp_path / "orders.csv"
    file.write_text("id\n1\n")
    [target] = deliver(lake, source, [file], DAY)
    broken = Ingestion("events", "x", "x", DAY, target.name, 5, None, status="held", run_id="run", recorded_at=lake.now())
    ingestions.record(lake, broken)
    file.write_text("id,amount\n1,2\n")
    assert deliver(lake, source, [file], DAY) == [target]
    assert target.read_text() == "id,amount\n1,2\n"
    ingestions.record(lake, replace(broken, status="ingested", content_hash="y", recorded_at=lake.now() + timedelta(hours=1)))
    file.write_text("id,amount\n1,3\n")
    assert [one.name for one in deliver(lake, source, [file], DAY)] == [f"{target.name}.2"]


def test_only_what_can_be_read_as_a_file_is_delivered(lake: Lake, tmp_path: Path) -> None:
    pipe, folder, link, of_latin = (tmp_path / name for name in ("pipe.csv", "folder.csv", "link.csv", os.fsdecode(b"b\xff.csv")))
    os.mkfifo(pipe)
    folder.mkdir()
    link.symlink_to(link)
    of_latin.write_text("id\n1\n")
    for file, reason in [
        (pipe, "it is a pipe, a socket or a device: write what it gives to a file first"),
        (Path("/dev/zero"), "it is a pipe, a socket or a device"),
        (folder, "it is a folder: name the files in it"),
        (link, "there is no such file"),
        (of_latin, "its name is not UTF-8: rename it"),
        (Path("/proc/self/mem"), r"it cannot be read \(Input/output error\)"),
    ]:
        with pytest.raises(UndeliveredFileError, match=reason):
            deliver(lake, contract(), [file], DAY)
    assert not [*Path(lake.landing_of("events")).glob("*")]


def test_what_cannot_be_delivered_is_said_and_nothing_is_copied(lake: Lake, tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_text("id\n1\n")
    with pytest.raises(UndeliveredFileError, match=r"lost.csv: there is no such file"):
        deliver(lake, contract(), [file, tmp_path / "lost.csv"], DAY)
    assert not Path(lake.landing_of("events")).exists() or not list(Path(lake.landing_of("events")).iterdir())
    daily = contract(source={"landing": "{arrival_date}.csv"})
    deliver(lake, daily, [file], DAY)
    file.write_text("id\n2\n")
    with pytest.raises(
        UndeliveredFileError, match=r"2024-11-05 \(\{arrival_date\}.csv\) takes one file a day, and has another one"
    ):
        deliver(lake, daily, [file], DAY)
    remote = lake.with_settings(landing="s3://bucket/in")
    with pytest.raises(UndeliveredFileError, match="upload yours there, or set LAKEHOUSE_LANDING to a local folder"):
        deliver(remote, contract(), [file], DAY)
