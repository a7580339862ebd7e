"""One value for all requests: read again when it is due, once and completely; no request gets one that is too old."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from lakehouse.serving.responses import ComposedValue, RefreshedValue, gathered


class Clock:
    now = 0.0


@pytest.fixture(name="clock")
def _clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("lakehouse.serving.responses.monotonic", lambda: clock.now)
    return clock


def test_it_is_read_again_when_it_is_due(clock: Clock) -> None:
    reads: list[int | None] = []

    def read(known: int | None) -> int:
        reads.append(known)
        return len(reads)

    async def read_repeatedly() -> list[int]:
        fresh, seen = RefreshedValue(read, after=1, at_most=3), []
        for now in (0, 1, 2, 2, 10):
            clock.now = now
            seen.append(await fresh.get())
            await asyncio.sleep(0.05)
        return seen

    assert asyncio.run(read_repeatedly()) == [1, 1, 1, 2, 3], "the third is given the old one, and has it read; the last waits"
    assert reads == [None, 1, 2], "what was read before is handed on"


def test_simultaneous_requests_get_the_same_value_from_one_read(clock: Clock) -> None:
    looks, go = [], threading.Event()

    def read(_: Any) -> object:
        looks.append(1)
        go.wait(10)
        return object()

    async def read_repeatedly() -> list[object]:
        fresh = RefreshedValue(read, after=1, at_most=1)
        waiting = [asyncio.create_task(fresh.get()) for _ in range(50)]
        await asyncio.sleep(0.05)
        waiting[0].cancel()
        await asyncio.sleep(0)
        go.set()
        return list(await asyncio.gather(*waiting[1:]))

    found = asyncio.run(read_repeatedly())
    assert (len(looks), len(set(found))) == (1, 1), "one who goes away takes nobody's answer with him"


def test_a_failure_is_reported_to_those_who_wait_and_retried(clock: Clock) -> None:
    said = iter([1, OSError("gone"), OSError("gone"), 2])

    def read(_: int | None) -> int:
        one = next(said)
        if isinstance(one, Exception):
            raise one
        return one

    async def read_repeatedly() -> None:
        fresh = RefreshedValue(read, after=1, at_most=3)
        assert await fresh.get() == 1
        clock.now = 2
        assert await fresh.get() == 1, "an old one that is young enough"
        await asyncio.sleep(0.05)
        clock.now = 10
        with pytest.raises(OSError, match="gone"):
            await fresh.get()
        assert await fresh.get() == 2

    asyncio.run(read_repeatedly())


@pytest.mark.parametrize(
    ("seconds", "is_kept", "seen"),
    [(0.01, True, [1, 2, 3, 4, 5]), (1.0, True, [1, 1, 1, 2, 3]), (1.0, False, [1, 2, 3, 4, 5]), (20.0, True, [1, 1, 1, 2, 2])],
    ids=["made at once", "takes long", "never kept", "takes very long"],
)
def test_what_takes_long_to_make_is_kept_for_longer(clock: Clock, seconds: float, is_kept: bool, seen: list[int]) -> None:
    made = 0

    async def make() -> int:
        nonlocal made
        made += 1
        clock.now += seconds
        return made

    async def read_repeatedly() -> list[int]:
        composed, answers = ComposedValue(make, is_kept=is_kept), []
        for now in (0, 3, 6, 8, 30):
            clock.now = now
            answers.append(await composed.get())
            await asyncio.sleep(0.01)
        return answers

    assert asyncio.run(read_repeatedly()) == seen, "older than four times its making: made again meanwhile; than ten times: waits"


def test_many_reads_are_made_a_few_at_a_time_and_an_error_is_a_result() -> None:
    under_way, most = set[int](), 0

    async def read(number: int) -> int:
        nonlocal most
        under_way.add(number)
        most = max(most, len(under_way))
        await asyncio.sleep(0)
        under_way.remove(number)
        if number == 70:
            raise OSError
        return number

    results = asyncio.run(gathered((read(number) for number in range(100)), failures=True))
    assert [result for result in results if isinstance(result, int)] == [number for number in range(100) if number != 70]
    assert isinstance(results[70], OSError)
    assert most <= 16
    with pytest.raises(OSError):  # noqa: PT011 (it has no text)
        asyncio.run(gathered(read(number) for number in (1, 70)))
