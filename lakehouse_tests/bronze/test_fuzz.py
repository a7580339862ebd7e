"""Damaged files: none crashes a run, no line of them is lost, and no row is where it does not belong (R1, R12)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.bronze import landing as bronze_landing
from lakehouse.bronze import reader
from lakehouse.ledger import ingestions
from lakehouse.ledger.ids import DeliveredFile
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import SampleLake, content_id, contract, row_of
from lakehouse_tests.support.laws import some
from lakehouse_tests.support.malformed_files import malformations
from lakehouse_tests.support.malformed_files.expected import TYPED, misfits
from lakehouse_tests.support.malformed_files.pieces import CSV, JSON, KEYS, joined
from lakehouse_tests.support.malformed_files.values import RECEIVED
from lakehouse_tests.support.reference_model import Record, live_rows

if TYPE_CHECKING:
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse_tests.support.malformed_files.pieces import Format, Malformation, Piece

DAY = date(2024, 2, 1)
AT_LEAST = 300
#: Malformations of single lines that stand in one file, in the test with Spark; and files of the other kinds, by seed.
TOGETHER = 400
SAMPLE, SEED = 15, "files for Spark"


@dataclass(frozen=True)
class File:
    """What is delivered; ``pieces`` is None for what must be held."""

    content: bytes
    pieces: tuple[Piece, ...] | None


@pytest.fixture(scope="module")
def damaged() -> list[Malformation]:
    return malformations()


def source(file_format: Format) -> SourceContract:
    return contract(source={"landing": "arrival_date={arrival_date}*", "start_date": "2024-01-01", "format": file_format})


def wrong_with(lake: Lake, malformation: Malformation) -> list[str]:
    """What is not as it must be with the rows that Bronze would get of this file."""
    try:
        problem, rows = read(lake, malformation)
    except Exception as error:  # noqa: BLE001 (all of them are to be told)
        return [f"raises {error!r}"]
    if malformation.pieces is None or problem:
        return [] if malformation.pieces is None and problem else [f"held: {problem}, rows: {rows}"]
    return misfits(malformation.pieces, rows, malformation.format)


def read(lake: Lake, malformation: Malformation) -> tuple[str | None, list[dict[str, Any]]]:
    """Why the file is held, or its rows."""
    contract_ = source(malformation.format)
    Path(str(lake.settings.landing), f"arrival_date={DAY}.part").write_bytes(malformation.content)
    (file,), _ = bronze_landing.landing_files(lake, contract_)
    fingerprint = bronze_landing.fingerprint(lake, contract_, file)
    if fingerprint.problem:
        return fingerprint.problem, []
    delivery = DeliveredFile(file.name, fingerprint.ingestion_id, DAY, RECEIVED)
    rows = [row for batch in reader.delivery_rows(lake, contract_, delivery, file.path) for row in batch.to_pylist()]
    origin = (DAY, file.name, content_id(malformation.content), "events")
    assert all(
        tuple(row[name] for name in ("arrival_date", "source_file", "ingestion_id", "source_system")) == origin for row in rows
    )
    return None, rows


@pytest.mark.law
def test_each_damaged_file_becomes_the_rows_that_its_damage_leaves(
    lake: Lake, damaged: list[Malformation], capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = [f"{item.name}: {text[:1_000]}" for item in some(damaged, 400) for text in wrong_with(lake, item)]
    held = Counter(item.format for item in damaged if item.pieces is None)
    formats = Counter(item.format for item in damaged)
    with capsys.disabled():
        print(f"\n{len(damaged)} distinct malformations: {dict(formats)}, of which held as a whole: {dict(held)}")  # noqa: T201
    assert not wrong, f"{len(wrong)} are wrong:\n" + "\n".join(wrong[:20])
    assert len({(item.format, item.content) for item in damaged}) == len(damaged) >= AT_LEAST
    assert min(formats.values()) >= AT_LEAST


@pytest.mark.parametrize("base", [CSV, JSON], ids=["csv", "json"])
def test_undamaged_files_are_what_the_damaged_ones_are_compared_with(lake: Lake, base: Any) -> None:
    whole = base.transformed("nothing", base.whole, readable=True)
    assert wrong_with(lake, whole) == []
    _, rows = read(lake, whole)
    assert [{name: row[name] for name in TYPED} for row in rows] == [record.expected_row for record in base.records]


@pytest.mark.spark
@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_a_lake_of_damaged_files_holds_each_row_once_and_on_its_day(
    spark: Any, tmp_path: Path, damaged: list[Malformation], file_format: Format, capsys: pytest.CaptureFixture[str]
) -> None:
    """All malformations of one format in one lake: those of single lines together in large files, each with keys of its
    own; all that must be held; of the rest, where quotes, ends or encodings are the damage, a sample by seed."""
    sample = SampleLake(lake_in(tmp_path), source(file_format), spark)
    files = files_of([item for item in damaged if item.format == file_format])
    by_name = {}
    for number, file in enumerate(files):
        arrival = DAY + timedelta(days=number % 3)
        by_name[sample.deliver(arrival, file.content, f".{number}.{file_format}").name] = file
    for arrival in sorted({DAY + timedelta(days=number % 3) for number in range(len(files))}):
        sample.ingest(arrival)

    entries = {entry.source_file: entry for entry in ingestions.all_of(sample.lake, "events")}
    assert entries.keys() == by_name.keys(), "every file is in the ledger"
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in by_name}
    for row in sample.bronze("raw_payload", "malformed_reason", "ingestion_id", *TYPED):
        rows[row["source_file"]].append(row)
    for name, file in by_name.items():
        entry = entries[name]
        if file.pieces is None:
            assert (entry.status, bool(entry.message), rows[name]) == ("held", True, []), name
        else:
            malformed = sum(row["malformed_reason"] is not None for row in rows[name])
            assert (entry.status, entry.rows, entry.malformed) == ("ingested", len(rows[name]), malformed), name
            assert misfits(file.pieces, rows[name], file_format) == [], name

    sample.update()
    sound = [row for found in rows.values() for row in found if row["malformed_reason"] is None]
    records = [record_of(row, entries[row["source_file"]].arrival_date) for row in sound]
    expected = {row_of(record) for record in live_rows(records, by_sequence=False).values()}
    assert sample.silver() == expected
    with capsys.disabled():
        told = Counter(entry.status for entry in entries.values())
        print(f"\n{file_format}: {dict(told)}, {sum(map(len, rows.values()))} rows, {len(expected)} in silver")  # noqa: T201


def files_of(damaged: list[Malformation]) -> list[File]:
    together = [item for item in damaged if stands_with_others(item)]
    apart = [item for item in damaged if item.pieces is not None and not stands_with_others(item)]
    held = [item for item in damaged if item.pieces is None]
    files = []
    for begin in range(0, len(together), TOGETHER):
        base = CSV if together[0].format == "csv" else JSON
        named = enumerate(together[begin : begin + TOGETHER], begin)
        body = (piece.renamed(f"{number}-{KEYS}") for number, item in named for piece in (item.pieces or ())[len(base.head) :])
        pieces = (*base.head, *body)
        files.append(File(joined(pieces), pieces))
    sample = Random(SEED).sample(apart, SAMPLE)
    return files + [File(item.content, item.pieces) for item in sample + held]


def stands_with_others(malformation: Malformation) -> bool:
    """Whether the damage means the same between other lines: no bytes but those of the lines, no quote out of order."""
    base = CSV if malformation.format == "csv" else JSON
    pieces = malformation.pieces
    if not pieces or pieces[: len(base.head)] != base.head or joined(pieces) != malformation.content:
        return False
    astray = malformation.format == "csv" and any(b'"' in piece.text and piece.fate != "sound" for piece in pieces)
    return not astray and all(piece.end for piece in pieces)


def record_of(row: dict[str, Any], arrival_date: date) -> Record:
    """A sound row of Bronze, for the rule in plain Python."""
    return Record(
        key=row["record_key"],
        op=row["change_op"],
        day=row["event_date"],
        amount=row["amount"],
        arrival=row["arrival_ts"],
        corrects=row["corrects_key"],
        sequence=row["source_sequence"],
        file=row["ingestion_id"],
        line=row["line_number"],
        delivered=(arrival_date, row["source_file"]),
    )
