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


def test_one_piece_is_read_ahead_in_another_thread() -> None:
    readers: list[int] = []
    is_read = threading.Semaphore(0)

    def noted() -> Iterator[pa.Table]:
        for table in tables(3, 1, 4):
            readers.append(threading.get_ident())
            yield table
            is_read.release()
        is_read.release()

    rows = pieces.ahead(noted())
    assert len(next(rows)) == 3
    assert is_read.acquire(timeout=60)  # the second piece comes while the first one is used
    assert [len(piece) for piece in rows] == [1, 4]
    assert threading.get_ident() not in readers


def test_a_failure_to_read_ahead_comes_in_its_place() -> None:
    def broken() -> Iterator[pa.Table]:
        yield from tables(2)
        msg = "the second one"
        raise LookupError(msg)

    rows = pieces.ahead(broken())
    assert len(next(rows)) == 2
    with pytest.raises(LookupError, match="the second one"):
        next(rows)
    assert list(pieces.ahead(tables())) == []


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
