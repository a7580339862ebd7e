"""A file is stable when it was observed unchanged for long enough; the observations are stored as small JSON."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.bronze.file_completeness import Observations, token

START = datetime(2024, 11, 5, 6, tzinfo=timezone.utc)
PATIENCE = timedelta(seconds=5)


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def looked(*looks: tuple[float, dict[str, str]]) -> Observations:
    """What has been seen after some looks, each at its second, with the memory written down and read in between."""
    seen = Observations()
    for second, files in looks:
        seen = Observations.from_json(json.loads(json.dumps(seen.record(list(files.items()), at(second)).to_json())))
    return seen


def test_a_file_is_stable_at_the_first_scan_that_long_after_the_first_observation() -> None:
    files = {"a": "10 bytes"}
    for second, settled in [(0, False), (4.9, False), (5, True), (60, True)]:
        assert looked((0, files), (second, files)).is_stable("a", "10 bytes", at(second), PATIENCE) == settled


def test_a_file_that_is_written_to_starts_over() -> None:
    seen = looked((0, {"a": "10 bytes"}), (4, {"a": "20 bytes"}), (8, {"a": "20 bytes"}))
    assert not seen.is_stable("a", "20 bytes", at(8), PATIENCE)
    assert not seen.is_stable("a", "10 bytes", at(8), PATIENCE), "what is there no more is forgotten"
    back = looked((0, {"a": "10 bytes"}), (4, {"a": "20 bytes"}), (8, {"a": "10 bytes"}))
    assert not back.is_stable("a", "10 bytes", at(8), PATIENCE)


def test_a_file_that_was_missing_starts_over() -> None:
    assert not looked((0, {"a": "x"}), (4, {}), (8, {"a": "x"})).is_stable("a", "x", at(8), PATIENCE)


def test_files_do_not_stand_in_for_one_another() -> None:
    assert not looked((0, {"a": "x"}), (9, {"b": "x"})).is_stable("b", "x", at(9), PATIENCE)


def test_without_a_settling_time_one_scan_suffices() -> None:
    assert looked((0, {"a": "x"})).is_stable("a", "x", at(0), timedelta(0))


def test_a_clock_that_was_set_back_starts_over() -> None:
    seen = looked((1000, {"a": "x"}), (0, {"a": "x"}))
    assert not seen.is_stable("a", "x", at(0), PATIENCE)
    assert looked((1000, {"a": "x"}), (0, {"a": "x"}), (5, {"a": "x"})).is_stable("a", "x", at(5), PATIENCE)


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.dictionaries(st.sampled_from("abc"), st.integers(0, 2).map(str), max_size=3)), max_size=12
    )
)
def test_settled_is_what_was_the_same_at_every_look_of_the_last_seconds(steps: list[tuple[int, dict[str, str]]]) -> None:
    """Against a model that keeps every observation."""
    second, history, looks = 0, [], []
    for pause, files in steps:
        second += pause
        looks.append((second, files))
        history.append((second, files))
        seen = looked(*looks)
        for name, state in files.items():
            same = second
            for earlier, found in reversed(history):
                if found.get(name) != state:
                    break
                same = earlier
            assert seen.is_stable(name, state, at(second), PATIENCE) == (second - same >= 5)


def test_ten_thousand_files_are_a_small_memory() -> None:
    files = {f"arrival_date=2024-11-05/part-{number}.csv": f"{number} bytes of {START}" for number in range(10_000)}
    seen = looked((0, files))
    assert len(json.dumps(seen.to_json())) < 90_000
    assert all(seen.is_stable(name, state, at(5), PATIENCE) for name, state in files.items())
    assert seen.record([], at(5)).to_json() == {}


def test_names_and_states_are_told_apart_where_they_meet() -> None:
    assert token("a", "bc") != token("ab", "c")


@pytest.mark.parametrize("stored", [{"yesterday": "AAAAAAAA"}, {"": ""}])
def test_invalid_observations_are_refused(stored: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="Invalid isoformat"):
        Observations.from_json(stored)
