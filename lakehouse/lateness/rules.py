"""When a row is late, the share of late rows, percentiles of lateness, and the watermark that the data suggests.

Every layer uses this definition of a late row; the Arrow form of :func:`is_late` is ``lateness.measurement.are_late``. The
lateness of a row itself is in ``calendar.days``, what happens to a late row in ``admission``. A proposal keeps the watermark
in force while the data suggests nearly the same one (hysteresis), so that the watermark does not move back and forth.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING

from lakehouse.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime

    from lakehouse.contracts.publication import Tuning
    from lakehouse.contracts.source_rules import Tier

#: The percentiles that are reported: the share of rows of each, by name.
PERCENTILES = {"p50": "0.5", "p90": "0.9", "p95": "0.95", "p99": "0.99", "p99.9": "0.999"}
#: The share that a watermark would have caught is reported for these, 30 s to 30 d, and for those that are in force or proposed.
LADDER = (
    *(timedelta(seconds=seconds) for seconds in (30, 60, 300, 900)),
    *(timedelta(hours=hours) for hours in (1, 6, 12, 24, 48, 72, 168, 336, 720)),
)
#: The multiple of the tolerated share of rows beyond a watermark that is an error.
_FAR = 10
_MINUTE, _QUARTER, _HOUR, _TWO_DAYS = 60, 900, 3_600, 172_800


def is_late(lateness: timedelta | None, bound: timedelta | None) -> bool:
    """Whether a row arrived later than a bound, such as a watermark; False on the bound, and without a lateness or a bound."""
    return lateness is not None and bound is not None and lateness > bound


def late_share(late: int, rows: int) -> float:
    """The share of rows that are late; 0 if there are no rows."""
    return late / rows if rows else 0.0


def exceeds(late: int, rows: int, tolerated: Decimal | float) -> bool:
    """Whether the share of late rows is greater than ``tolerated``, without rounding."""
    return late > Decimal(f"{tolerated}") * rows


@dataclass(frozen=True)
class ArrivalCount:
    """The number of rows that arrived at one time, and how many of them were beyond the cutoff."""

    at: datetime
    rows: int
    late: int


@dataclass(frozen=True)
class TierLateness:
    """The number of rows, among those with a lateness, that came later than a tier of the contract.

    :param is_exceeded: whether their share is more than the contract tolerates.
    """

    tier: Tier
    beyond: int
    share: float
    is_exceeded: bool

    @property
    def text(self) -> str:
        """The share beyond the tier and the tolerated share, as the end of a sentence about these rows."""
        late = f"{self.share:.2%} ({self.beyond:,}) came later than {format_duration(self.tier.within)}, the tier that serves "
        return f"{late}{self.tier.serves!r}; the contract tolerates {self.tier.tolerated or 0:.2%}"


@dataclass(frozen=True)
class LagPercentile:
    """The 99th percentile of the lags of ``rows`` rows; None if there are none."""

    rows: int
    lag: timedelta | None


class WatermarkVerdict(str, Enum):
    """The effect of a proposal on the watermark in force."""

    KEEP = "keep"
    SET = "set"
    RAISE = "raise"
    LOWER = "lower"
    TOO_FEW = "too_few"


class RecommendationSeverity(str, Enum):
    """The severity of a proposal."""

    NONE = "none"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


@dataclass(frozen=True)
class WatermarkEvidence:
    """The share of rows that came within a watermark."""

    watermark: timedelta
    share: float


@dataclass(frozen=True)
class Proposal:
    """The watermark that is proposed from the data.

    ``needed`` is the smallest round watermark that catches the wanted share of rows; ``watermark`` is the one that should be in
    force: ``needed`` within the contract's bounds, or the present one. Both are None if there are too few rows.

    :param is_limited: whether ``needed`` is longer than the contract's bounds allow.
    """

    verdict: WatermarkVerdict
    current: timedelta | None
    watermark: timedelta | None
    needed: timedelta | None
    rows: int
    because: str
    evidence: tuple[WatermarkEvidence, ...] = ()
    is_limited: bool = False

    @property
    def moves(self) -> bool:
        """Whether another watermark than the one in force is proposed."""
        return self.verdict in (WatermarkVerdict.SET, WatermarkVerdict.RAISE, WatermarkVerdict.LOWER)

    @property
    def caught(self) -> float | None:
        """The share of rows that came within the watermark in force; None without one, or without rows."""
        return next((line.share for line in self.evidence if line.watermark == self.current), None) if self.rows else None

    def severity(self, catch: float) -> RecommendationSeverity:
        """The severity by the share of rows beyond the cutoff in force.

        ``ERROR`` and ``WARN`` require that less than ``catch`` came within it, and that another one is proposed or the contract's
        bounds exclude the one that is needed: an error if more than ten times the tolerated share came beyond it, else a warning.
        ``INFO`` for any other proposal and where the rows are too few or no watermark is in force, else ``NONE``: also for
        a cutoff that catches too little and stays because the data asks for nearly the same one.

        :param catch: the share of rows that the contract wants within the watermark.
        """
        if self.verdict is WatermarkVerdict.TOO_FEW or self.caught is None:
            return RecommendationSeverity.INFO
        if self.caught < catch and (self.moves or self.is_limited):
            far = 1 - self.caught > _FAR * (1 - catch)
            return RecommendationSeverity.ERROR if far else RecommendationSeverity.WARN
        return RecommendationSeverity.INFO if self.moves else RecommendationSeverity.NONE


def share_within(seconds: Sequence[int], watermark: timedelta) -> float:
    """The share of rows that came within ``watermark``; 0 if there are no rows.

    :param seconds: how late each row came, sorted; parts of a second count as a whole one.
    """
    return rows_within(seconds, watermark) / len(seconds) if len(seconds) else 0.0


def rows_within(seconds: Sequence[int], watermark: timedelta) -> int:
    """The number of rows that came within ``watermark``; see :func:`share_within`."""
    return bisect_right(seconds, int(watermark.total_seconds()))


def tiers_of(tiers: Iterable[Tier], seconds: Sequence[int]) -> list[TierLateness]:
    """The rows beyond each of ``tiers``.

    :param seconds: how late each row came, sorted.
    """
    rows = len(seconds)
    counted = [(tier, rows - rows_within(seconds, tier.within)) for tier in tiers]
    return [
        TierLateness(tier, beyond, late_share(beyond, rows), tier.tolerated is not None and exceeds(beyond, rows, tier.tolerated))
        for tier, beyond in counted
    ]


def percentile(seconds: Sequence[int], share: str | float) -> int | None:
    """The smallest lateness within which at least ``share`` of the rows came, by nearest rank; None if there are no rows."""
    return int(seconds[nearest_rank(len(seconds), share)]) if len(seconds) else None


def percentiles(seconds: Sequence[int], names: Iterable[str] = tuple(PERCENTILES)) -> dict[str, int | None]:
    """The :data:`PERCENTILES` of lateness that ``names`` lists, by name.

    :param seconds: how late each row came, sorted.
    """
    return {name: percentile(seconds, PERCENTILES[name]) for name in names}


def nearest_rank(count: int, share: str | float) -> int:
    """The index of a percentile among ``count`` sorted values, from 0.

    The value at this index is the smallest one that at least ``share`` of the values do not exceed: always one of the values,
    never an interpolation.
    """
    wanted = Fraction(str(share)) * count
    return max(-(-wanted.numerator // wanted.denominator), 1) - 1


def evidence(seconds: Sequence[int], also: Collection[timedelta | None] = ()) -> tuple[WatermarkEvidence, ...]:
    """The share of rows that each watermark of the ladder, and each of ``also``, would have caught."""
    asked = sorted({*LADDER, *(one for one in also if one is not None)})
    return tuple(WatermarkEvidence(one, share_within(seconds, one)) for one in asked)


def propose(seconds: Sequence[int], current: timedelta | None, tuning: Tuning) -> Proposal:
    """The watermark that catches the wanted share of ``seconds``, within the contract's bounds.

    :param seconds: see :func:`share_within`.
    :param current: the watermark in force.
    """
    rows = len(seconds)
    if rows < tuning.rows:
        because = f"{rows:,} rows are too few to measure a share of {tuning.catch:.1%}; the contract requires {tuning.rows:,}"
        shown = evidence(seconds, [current]) if rows else ()  # a share of no rows says nothing
        return Proposal(WatermarkVerdict.TOO_FEW, current, None, None, rows, because, shown)
    needed = rounded_up(percentile(seconds, tuning.catch) or 0)
    wanted = min(max(needed, tuning.at_least), tuning.at_most)
    verdict, because = _verdict(seconds, current, wanted, needed, tuning)
    watermark = current if verdict is WatermarkVerdict.KEEP else wanted
    shown = evidence(seconds, [current, wanted, needed])
    return Proposal(verdict, current, watermark, needed, rows, because, shown, is_limited=needed > wanted)


def rounded_up(seconds: int) -> timedelta:
    """Rounded up to a minute within an hour, to a quarter of an hour within two days, else to an hour; at least a minute."""
    unit = _MINUTE if seconds <= _HOUR else _QUARTER if seconds <= _TWO_DAYS else _HOUR
    return timedelta(seconds=max(-(-seconds // unit) * unit, _MINUTE))


def _verdict(
    seconds: Sequence[int], current: timedelta | None, wanted: timedelta, needed: timedelta, tuning: Tuning
) -> tuple[WatermarkVerdict, str]:
    asks = f"{tuning.catch:.1%} of {len(seconds):,} rows came within {format_duration(needed)}"
    if wanted != needed:
        asks += f"; the contract's bound is {format_duration(wanted)}"
    if current is None:
        return WatermarkVerdict.SET, f"{asks}; none is in force"
    there = f"{format_duration(current)} catches {share_within(seconds, current):.2%}"
    if tuning.keeps(current, wanted):
        return WatermarkVerdict.KEEP, f"{asks}; {there}, and the difference is within {tuning.band:.0%} of it"
    return (WatermarkVerdict.RAISE if wanted > current else WatermarkVerdict.LOWER), f"{asks}; {there}"
