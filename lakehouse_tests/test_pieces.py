"""Pieces: results in their order, and reports to those who listen."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakehouse import pieces

if TYPE_CHECKING:
    from collections.abc import Iterator


def tables(*lengths: int) -> Iterator[pa.Table]:
    return (pa.table({"number": range(length)}) for length in lengths)


def test_results_come_in_the_order_of_the_pieces() -> None:
    slow = threading.Event()

    def length(table: pa.Table) -> int:
        if len(table) == 3:
            slow.wait(0.2)
        return len(table)

    assert list(pieces.mapped(length, tables(3, 1, 4, 1, 5, 9, 2, 6))) == [3, 1, 4, 1, 5, 9, 2, 6]


def test_no_more_pieces_are_read_ahead_than_there_are_threads() -> None:
    read = []

    def noted() -> Iterator[pa.Table]:
        for table in tables(*range(50)):
            read.append(len(table))
            yield table

    results = pieces.mapped(len, noted())
    assert next(results) == 0
    assert len(read) <= pieces._THREADS + 1


def test_a_failure_reaches_the_caller() -> None:
    def broken(table: pa.Table) -> int:
        msg = f"{len(table)} rows"
        raise LookupError(msg)

    with pytest.raises(LookupError, match="7 rows"):
        list(pieces.mapped(broken, tables(7)))


def test_all_listeners_are_told_how_much_is_done() -> None:
    reports: list[str] = []
    with (
        pieces.listened_to_by(lambda *report: reports.append("outer " + pieces.sentence(*report)), every=0),
        pieces.listened_to_by(lambda *report: reports.append("inner " + pieces.sentence(*report)), every=0),
    ):
        assert [len(piece) for piece in pieces.counted("rows judged", tables(1_000, 500), 1_500)] == [1_000, 500]
    assert reports == [
        "outer rows judged: 1,000 of 1,500",
        "inner rows judged: 1,000 of 1,500",
        "outer rows judged: 1,500 of 1,500",
        "inner rows judged: 1,500 of 1,500",
    ]
    assert pieces.sentence("rows", 1_000, None) == "rows: 1,000"
    assert not pieces.is_listened_to()


def test_short_work_is_not_reported() -> None:
    reports: list[int] = []
    with pieces.listened_to_by(lambda _what, done, _total: reports.append(done), every=60):
        list(pieces.counted("rows", tables(1, 2, 3)))
    assert reports == []
