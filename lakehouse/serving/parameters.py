"""The types of request parameters, and the lookup of their values: a period, a version, a range of days.

Unknown values raise a :class:`Problem`. Version selectors are defined in ``gold.numbers.version_selector``.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated

from fastapi import Path, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from lakehouse.calendar import periods, windows
from lakehouse.contracts.series import read_period
from lakehouse.gold.numbers import version_selector
from lakehouse.gold.numbers.version_selector import MissingVersionError, UnknownVersionError, VersionSelector
from lakehouse.serving.responses import Problem

if TYPE_CHECKING:
    from lakehouse.calendar.periods import Period
    from lakehouse.contracts import MetricContract
    from lakehouse.serving.published_cache import PublishedSeries
    from lakehouse.serving.snapshot import PeriodVersions, VersionSummary

NAME = "^[a-z][a-z0-9_]{0,99}$"
WINDOW = "^([0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{4}-W[0-9]{2}|[0-9]{4}-[0-9]{2}|(FY)?[0-9]{4}-Q[1-4]|FY[0-9]{4})$"
#: A period, or the name of a window of a day, as people write them; a plus sign may have been decoded as a space.
PERIOD_OR_WINDOW = f"^({periods.PATTERN}|{windows.PATTERN})$"
_TIME = r"([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?(Z|[+ -][0-9]{2}:[0-9]{2})?)?"
_NAMED = r"[a-z][a-z0-9_]{0,99}_v(FY)?[0-9]{4}[-0-9QW]{0,6}[.]r[0-9]{1,9}([.]a[0-9]{1,9})?"
#: A day, or a time with or without a time zone.
MOMENT = "[0-9]{4}-[0-9]{2}-[0-9]{2}" + _TIME
VERSION = "^(latest|final|first|r?[0-9]{1,9}([.]a[0-9]{1,9})?|v[0-9]{1,9}|" + MOMENT + "|" + _NAMED + ")$"
#: A version selector, or ``live``: the numbers of the speed layer, which are not versions of published numbers.
VERSION_OR_LIVE = VERSION.replace("^(", "^(live|", 1)
#: A plus sign in a URL is decoded as a space.
_EATEN_PLUS = re.compile(r"(?P<time>[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?) (?P<offset>[0-9]{2}:[0-9]{2})$")
#: The supported range of days; days outside it are moved to its nearest end.
_FIRST, _LAST = date(1700, 1, 1), date(2300, 1, 1)


def _iso_day(value: object) -> object:
    """Accept only ISO days: pydantic would also accept numbers."""
    if isinstance(value, str) and not re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
        msg = "write a day as 2024-01-31"
        raise ValueError(msg)
    return value


def _iso_moment(value: object) -> object:
    if isinstance(value, str) and not re.match("[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]", value):
        msg = "write a time as 2024-01-31T08:00:00Z"
        raise ValueError(msg)
    return with_plus(value) if isinstance(value, str) else value


def _yes_or_no(value: object) -> object:
    if isinstance(value, str) and value not in ("true", "false"):
        msg = "write true or false"
        raise ValueError(msg)
    return value


Day = Annotated[date, BeforeValidator(_iso_day)]
Moment = Annotated[datetime, BeforeValidator(_iso_moment)]
Flag = Annotated[bool, BeforeValidator(_yes_or_no)]
MetricName = Annotated[str, Path(description="The name of a metric.", pattern=NAME, examples=["revenue"])]
SourceName = Annotated[str, Path(description="The dataset of a source.", pattern=NAME, examples=["sales"])]
WindowName = Annotated[
    str, Path(description="A day, ISO week, month, quarter, fiscal quarter or year.", pattern=WINDOW, examples=["2024-W46"])
]
PeriodOrWindowName = Annotated[
    str,
    Path(description="A period, or a window of a day as 2024-01-15T14.", pattern=PERIOD_OR_WINDOW, examples=["2024-11-07T14"]),
]
Window = Annotated[
    str,
    Field(description="2024-01-15, 2024-W03, 2024-01, 2024-Q1, FY2024-Q1 or FY2024.", pattern=WINDOW, examples=["2024-11-07"]),
]
PeriodOrWindow = Annotated[
    str,
    Field(
        description="A period, as 2024-01-15, 2024-W03, 2024-01, 2024-Q1, FY2024-Q1 or FY2024; or a window of a metric that has "
        "some, by the local time at which it starts, as 2024-01-15T14, 2024-01-15-14 or 2024-01-15 14:00.",
        pattern=PERIOD_OR_WINDOW,
        examples=["2024-11-07"],
    ),
]
Version = Annotated[
    str,
    Field(
        description="latest, final, first, r3, v2, a version's name, or an ISO time: what readers saw then (a day: at its end).",
        pattern=VERSION,
        examples=["latest", "r1", "2024-11-08T06:00:00Z"],
    ),
]
VersionOrLive = Annotated[
    str,
    Field(
        description="latest, final, first, r3, v2, a version's name, or an ISO time: what readers saw then (a day: at its end); "
        "or live: the numbers of the stream, which are not published.",
        pattern=VERSION_OR_LIVE,
        examples=["latest", "live", "r1", "2024-11-08T06:00:00Z"],
    ),
]
Limit = Annotated[int, Field(ge=1, le=1000, description="The maximum number of entries.")]
Offset = Annotated[int, Field(ge=0, le=1_000_000, description="The number of entries to skip.")]


class Parameters(BaseModel):
    """The parameters of a request; unknown parameters are errors."""

    model_config = ConfigDict(extra="forbid")


class EmptyParameters(Parameters):
    """No parameters."""


NoParameters = Annotated[EmptyParameters, Query()]


class MetricSearch(Parameters):
    """Which metrics are listed."""

    q: Annotated[str, Field(max_length=100, description="A part of the name, description, owner or source, in any case.")] = ""
    owner: Annotated[str, Field(max_length=200, description="The owner.")] = ""

    def finds(self, metric: MetricContract) -> bool:
        """Whether a metric is listed."""
        texts = (metric.name, metric.description, metric.owner, metric.source, *metric.sources_named)
        return self.owner in ("", metric.owner) and any(self.is_in(text or "") for text in texts)

    def is_in(self, text: str) -> bool:
        """Whether what is searched is a part of a text."""
        return self.q.strip().casefold() in text.casefold()


def period_of(metric: MetricContract, text: str) -> Period:
    """The period with the given name.

    :raises Problem: if the period does not exist.
    """
    return period_or_window(metric, text)[0]


def period_or_window(metric: MetricContract, text: str) -> tuple[Period, datetime | None]:
    """The period with the given name; for the name of a window, its day and its first moment.

    :raises Problem: if the period or window does not exist.
    """
    try:
        return read_period(metric, text)
    except (periods.UnknownPeriodError, windows.UnknownWindowError) as problem:
        raise Problem(404, "unknown-window", f"{problem}") from None


def version_of(text: str) -> VersionSelector:
    """The version selector represented by ``text``.

    :raises Problem: if it selects nothing, such as the 31st of June.
    """
    try:
        return version_selector.parse(with_plus(text))
    except UnknownVersionError as problem:
        raise Problem(404, "unknown-version", f"{problem}") from None


def with_plus(text: str) -> str:
    """Restore the plus sign of a time's zone, which URL decoding may have turned into a space."""
    return _EATEN_PLUS.sub(r"\g<time>+\g<offset>", text)


def chosen(
    published: PublishedSeries, period: Period, period_versions: PeriodVersions, wanted: VersionSelector
) -> tuple[VersionSummary, str | None]:
    """The selected version, and a note for readers.

    :raises Problem: if the period has no such version.
    """
    try:
        return version_selector.select(period_versions.summaries, wanted, published.series, period)
    except MissingVersionError as problem:
        detail = f"{problem}, and its newest revision is r{period_versions.newest_revision.revision}"
    except UnknownVersionError as problem:
        detail = f"{problem}"
    raise Problem(404, "unknown-version", detail)


def span(start: date, end: date) -> tuple[date, date]:
    """The two days, limited to the supported range.

    :raises Problem: if ``end`` is before ``start``.
    """
    if end < start:
        raise Problem(400, "makes-no-sense", f"the end, {end}, is before the start, {start}")
    return min(max(start, _FIRST), _LAST), min(max(end, _FIRST), _LAST)
