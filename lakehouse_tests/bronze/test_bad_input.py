"""Bad input: every record is a row of Bronze, every message names file, line and field, and the rest is processed (R1, R12)."""

from __future__ import annotations

import gzip
from datetime import date

import pytest

from lakehouse.bronze.landing import landing_files
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import HEADER, SampleLake, contract, csv_file

pytestmark = pytest.mark.spark

DAY, NEXT = date(2024, 2, 1), date(2024, 2, 2)
EVENT_DAY = date(2024, 1, 31)
BAD_LINES = {
    "wrong type": (b"a,much,2024-01-31T12:00:00Z,2024-02-01T06:00:00Z,insert,,0", "amount: 'much' is not an integer"),
    "too few fields": (b"a,1,2024-01-31T12:00:00Z", "has 3 fields where the header has 7"),
    "invalid UTF-8": (b"a\xff,1,2024-01-31T12:00:00Z,2024-02-01T06:00:00Z,insert,,0", "not valid UTF-8 at byte 2 of the record"),
    "no zone": (b"a,1,2024-01-31T12:00:00,2024-02-01T06:00:00Z,insert,,0", "event_time: '2024-01-31T12:00:00' names no zone"),
    "far future": (b"a,1,2054-01-31T12:00:00Z,2024-02-01T06:00:00Z,insert,,0", "event_time: 2054-01-31T12:00:00Z lies more than"),
    "impossible day": (b"a,1,2024-02-30,2024-02-01T06:00:00Z,insert,,0", "event_time: '2024-02-30' is no day of the calendar"),
    "impossible time": (
        b"a,1,2024-02-30T12:00:00Z,2024-02-01T06:00:00Z,insert,,0",
        "event_time: '2024-02-30T12:00:00Z' is an im",
    ),
}


def good(key: str, amount: int = 1, hour: int = 6) -> str:
    return f"{key},{amount},{EVENT_DAY}T12:00:00Z,2024-02-01T{hour:02}:00:00Z,insert,,0"


@pytest.fixture
def sample(lake, spark) -> SampleLake:
    return SampleLake(lake, contract(), spark)


def keys(sample: SampleLake) -> dict[str, int]:
    """The rows of silver: amount by key."""
    sample.update()
    return {row[0]: row[2] for row in sample.silver()}


@pytest.fixture(scope="module")
def bad_lines(spark, tmp_path_factory) -> SampleLake:
    """All of :data:`BAD_LINES` in one file, between two good lines."""
    sample = SampleLake(lake_in(tmp_path_factory.mktemp("lake")), contract(), spark)
    lines = [line for line, _ in BAD_LINES.values()]
    sample.deliver(DAY, csv_file([good("first")]) + b"\n".join(lines) + b"\n" + good("last").encode() + b"\n")
    (entry,) = sample.ingest(DAY).ingested
    assert (entry.rows, entry.malformed) == (len(lines) + 2, len(lines))
    return sample


@pytest.mark.parametrize("fault", BAD_LINES)
def test_a_bad_line_is_a_row_with_its_text_and_the_reason(bad_lines: SampleLake, fault: str) -> None:
    line, reason = BAD_LINES[fault]
    number = 3 + list(BAD_LINES).index(fault)
    (row,) = [row for row in bad_lines.bronze("raw_payload", "malformed_reason") if row["line_number"] == number]
    assert row["source_file"] == f"arrival_date={DAY}.csv"
    assert row["raw_payload"] == line.decode(errors="backslashreplace")
    assert row["malformed_reason"].startswith(reason)


def test_the_good_lines_beside_bad_ones_go_on(bad_lines: SampleLake) -> None:
    assert len(bad_lines.bronze()) == len(BAD_LINES) + 2
    assert keys(bad_lines) == {"first": 1, "last": 1}


def test_files_without_records_bring_no_row(sample: SampleLake) -> None:
    sample.deliver(DAY, b"", ".a.csv")
    sample.deliver(DAY, csv_file([]), ".b.csv")
    sample.deliver(DAY, csv_file([good("a")]), ".c.csv")
    report = sample.ingest(DAY)
    assert [entry.rows for entry in report.ingested] == [0, 0, 1]
    assert not report.held
    assert len(sample.bronze()) == 1
    assert keys(sample) == {"a": 1}


def test_an_empty_file_alone_leaves_nothing_to_do(sample: SampleLake) -> None:
    sample.deliver(DAY, b"")
    assert [entry.touched_days for entry in sample.ingest(DAY).ingested] == [[]]
    assert sample.bronze() == []
    assert keys(sample) == {}


def test_a_file_that_is_broken_as_a_whole_is_held_and_the_others_go_on(sample: SampleLake) -> None:
    whole = gzip.compress(csv_file([good("z"), *(good(str(n), n) for n in range(900))]))
    broken = sample.deliver(DAY, whole[: len(whole) // 2], ".a.csv.gz")
    sample.deliver(DAY, f"\n{HEADER.replace('amount', 'sum')}\n{good('y')}\n".encode(), ".b.csv")
    sample.deliver(DAY, csv_file([good("a")]), ".c.csv")
    report = sample.ingest(DAY)
    messages = [entry.message or "" for entry in report.held]
    assert len(messages) == 2
    assert messages[0].startswith(f"arrival_date={DAY}.a.csv.gz: the gzip stream breaks off after line ")
    assert messages[1].startswith(f"arrival_date={DAY}.b.csv: line 2: column amount is missing; have the file sent again")
    assert [row["source_file"] for row in sample.bronze()] == [f"arrival_date={DAY}.c.csv"]
    assert keys(sample) == {"a": 1}

    broken.write_bytes(whole)  # the way out that the message names
    assert [entry.rows for entry in sample.ingest(DAY).ingested] == [901]
    assert keys(sample).keys() >= {"a", "z"}


def test_an_extra_column_is_kept_in_the_raw_text(sample: SampleLake) -> None:
    sample.deliver(DAY, f"{HEADER},colour\n{good('a')},green\n".encode())
    sample.ingest(DAY)
    (row,) = sample.bronze("raw_payload", "malformed_reason")
    assert row["raw_payload"].endswith(",green")
    assert row["malformed_reason"] is None
    assert keys(sample) == {"a": 1}


def test_of_a_key_twice_in_a_file_the_last_line_counts(sample: SampleLake) -> None:
    sample.deliver(DAY, csv_file([good("a", 1), good("a", 2)]))
    sample.ingest(DAY)
    assert [row["line_number"] for row in sample.bronze()] == [2, 3]
    assert keys(sample) == {"a": 2}


@pytest.mark.parametrize("second_hour", [7, 5], ids=["newer", "older"])
def test_other_content_under_a_known_name_is_a_new_file(sample: SampleLake, second_hour: int) -> None:
    sample.deliver(DAY, csv_file([good("a", 1)]))
    sample.ingest(DAY)
    assert keys(sample) == {"a": 1}
    sample.deliver(DAY, csv_file([good("a", 2, second_hour)]))
    assert [entry.rows for entry in sample.ingest(DAY).ingested] == [1]
    assert sorted(row["amount"] for row in sample.bronze("amount")) == [1, 2]
    assert keys(sample) == {"a": 2 if second_hour > 6 else 1}


def test_the_same_content_again_is_a_redelivery_without_rows(sample: SampleLake) -> None:
    for arrival, name in [(DAY, ".a.csv"), (DAY, ".b.csv"), (NEXT, ".csv")]:
        sample.deliver(arrival, csv_file([good("a")]), name)
    reports = [sample.ingest(DAY), sample.ingest(NEXT), sample.ingest(NEXT)]
    assert [len(report.ingested) for report in reports] == [1, 0, 0]
    assert [entry.message for report in reports for entry in report.redelivered] == [
        f"the same content came as arrival_date={DAY}.a.csv"
    ] * 2
    assert len(sample.bronze()) == 1
    assert keys(sample) == {"a": 1}


def test_an_arrival_day_outside_the_partitions_is_complained_about(sample: SampleLake) -> None:
    sample.deliver(date(2023, 12, 31), csv_file([good("x")]))
    sample.deliver(DAY, csv_file([good("a")]))
    (sample.deliver(DAY, csv_file([good("y")])).parent / "arrival_date=2024-02-30.csv").write_bytes(csv_file([good("z")]))
    files, complaints = landing_files(sample.lake, sample.contract)
    assert [file.arrival_date for file in files] == [DAY]
    assert complaints == [
        (
            "arrival_date=2023-12-31.csv: arrival day 2023-12-31 lies before the first one, 2024-01-01; set source.start_date "
            "in the contract of events to 2023-12-31 or earlier, or take the file away"
        ),
        "arrival_date=2024-02-30.csv: 2024-02-30 is no day of the calendar; rename the file",
    ]
    sample.ingest(DAY)
    assert keys(sample) == {"y": 1}
