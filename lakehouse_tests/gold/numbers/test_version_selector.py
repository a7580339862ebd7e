"""Which version a text selects: every documented form, names as the tables write them, and a message for the rest."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.contracts.series import Series
from lakehouse.gold.numbers.lifecycle import VersionName
from lakehouse.gold.numbers.version_selector import (
    KNOWN,
    SelectBy,
    UnknownVersionError,
    VersionSelector,
    nothing_published,
    parse,
)
from lakehouse_tests.support.numbers_without_spark import metric

UTC = timezone.utc


@pytest.mark.parametrize("word", ["latest", "final", "first"])
def test_words(word: str) -> None:
    assert parse(f" {word} ") == VersionSelector(SelectBy(word), word)


@pytest.mark.parametrize(
    ("text", "revision", "adjustment"), [("r3", 3, None), ("3", 3, None), ("r12.a4", 12, 4), ("12.a4", 12, 4), ("r0", 0, None)]
)
def test_revisions(text: str, revision: int, adjustment: int | None) -> None:
    assert parse(text) == VersionSelector(SelectBy.REVISION, text, revision=revision, adjustment=adjustment)


def test_a_period_without_a_number_is_answered_with_the_nearest_ones() -> None:
    series, days = Series(metric()), [date(2024, 1, day) for day in (1, 3, 7, 9)]

    def answered(known: list[date]) -> str:
        return nothing_published(series, "2024-01-05", date(2024, 1, 5), known)

    nothing = "nothing of total has been published for 2024-01-05"
    assert answered(days) == f"{nothing}; the nearest that are published: 2024-01-03, 2024-01-07"
    assert answered(days[:2]) == f"{nothing}; the nearest that is published: 2024-01-03"
    assert answered(days[2:]) == f"{nothing}; the nearest that is published: 2024-01-07"
    assert answered([]) == nothing


def test_dataset_versions() -> None:
    assert parse("v2") == VersionSelector(SelectBy.DATASET, "v2", dataset_version=2)


@given(st.sampled_from(["revenue", "revenue_v2", "revenue_weekly"]), st.integers(1, 999), st.none() | st.integers(1, 99))
def test_names_as_the_tables_write_them(series: str, revision: int, adjustment: int | None) -> None:
    name = f"{VersionName(series, '2024-11-07', revision, adjustment)}"
    assert parse(name) == VersionSelector(
        SelectBy.REVISION, name, revision=revision, adjustment=adjustment, period="2024-11-07", series=series
    )


@given(st.dates(date(1, 1, 1), date(9999, 12, 31)))
def test_a_day_means_what_readers_saw_at_its_end(day: date) -> None:
    asked = parse(day.isoformat())
    assert asked.by is SelectBy.AS_OF
    assert asked.at == datetime(day.year, day.month, day.day, 23, 59, 59, 999999, tzinfo=UTC)


ZONES = st.sampled_from([UTC, timezone(timedelta(hours=2)), timezone(-timedelta(hours=9, minutes=30))])


@given(st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=ZONES))  # noqa: DTZ001 (hypothesis wants them so)
def test_a_time_means_itself(moment: datetime) -> None:
    for text in (moment.isoformat(), moment.astimezone(UTC).isoformat().replace("+00:00", "Z")):
        asked = parse(text)
        assert asked.by is SelectBy.AS_OF
        assert asked.at == moment
        assert asked.at.tzinfo is not None
    assert parse(moment.replace(tzinfo=None).isoformat()).at == moment.replace(tzinfo=UTC), "without a zone it is UTC"


@pytest.mark.parametrize(
    "text",
    ["", "newest", "Latest", "r", "r-1", "r3.a", "a3", "v", "2024-13-01", "2024-11-08T25:00", "2024-11", "2024-W45", "r1 r2"],
)
def test_a_text_that_names_no_version_is_answered_with_the_known_forms(text: str) -> None:
    with pytest.raises(UnknownVersionError) as told:
        parse(text)
    assert f"{told.value}" == f"{text!r} is not the name of a version; use {KNOWN}"


@given(st.text(max_size=20))
def test_any_text_asks_for_something_or_is_refused(text: str) -> None:
    try:
        selector = parse(text)
    except UnknownVersionError:
        return
    assert selector.text == text.strip()
    assert (selector.at is not None) == (selector.by is SelectBy.AS_OF)
    assert (selector.revision is not None) == (selector.by is SelectBy.REVISION)
    assert (selector.dataset_version is not None) == (selector.by is SelectBy.DATASET)
