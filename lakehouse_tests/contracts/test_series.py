"""The period or the window that a text means, for every command and request."""

from __future__ import annotations

from datetime import date, datetime, timezone

import pytest

from lakehouse.calendar.periods import UnknownPeriodError
from lakehouse.calendar.windows import UnknownWindowError
from lakehouse.contracts.series import read_period
from lakehouse_tests.support.numbers_without_spark import metric

HOURLY = metric("hourly", window={"size": "PT1H"})
SESSIONS = metric("visits", window={"gap": "PT30M", "key": "user"})
MOMENT = datetime(2024, 1, 15, 14, tzinfo=timezone.utc)


@pytest.mark.parametrize("text", ["2024-01-15T14", "2024-01-15-14", "2024-01-15 14:00"])
def test_a_window_is_read_with_its_day(text: str) -> None:
    for of in (HOURLY, SESSIONS):
        period, start = read_period(of, text)
        assert (period.name, period.start, start) == ("2024-01-15", date(2024, 1, 15), MOMENT)


def test_a_period_has_no_window() -> None:
    for text, name in {"2024-01-15": "2024-01-15", "2024-w3": "2024-W03", "fy2024": "FY2024"}.items():
        period, start = read_period(HOURLY, text)
        assert (period.name, start) == (name, None)


def test_a_metric_without_windows_has_none_that_could_be_named() -> None:
    with pytest.raises(UnknownWindowError, match=r"^'2024-01-15-14' is no period: total has no windows of a day"):
        read_period(metric(), "2024-01-15-14")


def test_a_text_is_shown_as_it_was_written() -> None:
    with pytest.raises(UnknownWindowError, match="no window starts at 2024-01-15 14:30: there are 2024-01-15T14"):
        read_period(HOURLY, "2024-01-15 14:30")
    with pytest.raises(UnknownPeriodError, match=r"^'2024-w60' is no period"):
        read_period(HOURLY, "2024-w60")
