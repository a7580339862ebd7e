"""The header of a file comes from its ingestion, else from landing; without it the file is named."""

from __future__ import annotations

import gzip
import hashlib
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from lakehouse.ledger.ingestions import Ingestion
from lakehouse.reparse.read_again import MissingHeaderError, of_ingestions
from lakehouse_tests.support.lake import HEADER, contract, csv_file

DAY = date(2024, 2, 1)


def ingestion(name: str, content: bytes, **more: Any) -> Ingestion:
    content_hash = hashlib.sha256(content).hexdigest()
    said = {"source": "events", "arrival_date": DAY, "source_file": name, "bytes": len(content), "modified": None, "rows": 1}
    at = datetime(2024, 2, 1, tzinfo=timezone.utc)
    return Ingestion(
        ingestion_id=name, content_hash=content_hash, status="ingested", run_id="run", recorded_at=at, **said, **more
    )


def test_a_recorded_header_needs_no_file(lake) -> None:
    assert of_ingestions(lake, contract(), [ingestion("gone.csv", b"", header="a,b")]) == {"gone.csv": "a,b"}


@pytest.mark.parametrize("zipped", [False, True])
def test_the_header_of_an_earlier_release_is_read_from_landing(lake, zipped: bool) -> None:
    content = b"\xef\xbb\xbf\n" + csv_file(["a,1,,,,,"])
    content = gzip.compress(content) if zipped else content
    Path(lake.settings.landing, "old.csv").write_bytes(content)
    assert of_ingestions(lake, contract(), [ingestion("old.csv", content)]) == {"old.csv": HEADER}


def test_files_whose_header_is_lost_are_named_with_the_ways_out(lake) -> None:
    Path(lake.settings.landing, "other.csv").write_bytes(b"other,content\n")
    entries = [ingestion("gone.csv", b"x"), ingestion("other.csv", b"y"), ingestion("known.csv", b"", header="a,b")]
    with pytest.raises(
        MissingHeaderError, match=r"gone.csv, other.csv: the header is not known.*put it back, or leave .* 2024-02-01"
    ):
        of_ingestions(lake, contract(), entries)


def test_other_formats_have_no_header(lake) -> None:
    source = contract(source={"landing": "arrival_date={arrival_date}*", "start_date": "2024-01-01", "format": "json"})
    assert of_ingestions(lake, source, [ingestion("gone.json", b"x")]) == {"gone.json": None}
