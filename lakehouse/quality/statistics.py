"""Statistics for the distance of a number, or of a sample, from others: exact, and independent of the order of the values.

Only the statistics belong here. Which values are compared, the bounds and the failure messages belong to the callers.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from decimal import Decimal
from fractions import Fraction
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

Number = float | Decimal  # type checkers read float as "float or int"
#: Exact where it is finite; a float only where it is infinite or NaN.
Result = Fraction | float

#: Factors for the standard deviation of normal values: the median absolute deviation / 0.6745, the mean one * 1.253314.
_OF_MEDIAN, _OF_MEAN = Fraction("0.6745"), Fraction("1.253314")


def total(values: Iterable[Number | None]) -> Result:
    """The exact sum without the NULLs; 0 if there are no values."""
    present = [value for value in values if value is not None]
    odd = [float(value) for value in present if not math.isfinite(value)]
    return sum(odd) if odd else sum(map(Fraction, present), Fraction(0))


def modified_z_score(value: Result, others: Collection[Fraction]) -> Result:
    """The distance of ``value`` above (or below) the median of ``others``, in robust standard deviations.

    The modified z-score of Iglewicz and Hoaglin, "How to Detect and Handle Outliers" (1993), where 3.5 marks an outlier: 0.6745
    (x - median) / MAD, with MAD the median absolute deviation from the median. Where more than half of the values are equal, MAD
    is 0, and the mean absolute deviation takes its place, as in IBM SPSS: (x - median) / (1.253314 MeanAD). Where all values are
    equal, the distance of any other value is infinite, as it always is for infinity and NaN.
    """
    if isinstance(value, float):
        return math.inf
    middle = median(others)
    away = [abs(other - middle) for other in others]
    deviation = median(away) / _OF_MEDIAN or sum(away) / len(away) * _OF_MEAN
    if deviation:
        return (value - middle) / deviation
    return Fraction(0) if value == middle else math.inf if value > middle else -math.inf


def kolmogorov_smirnov(ours: Iterable[Number], theirs: Iterable[Number]) -> Fraction:
    """The greatest difference between the cumulative shares of two samples: 0 for the same distribution, 1 for no overlap.

    The two-sample statistic of Smirnov, "Table for estimating the goodness of fit of empirical distributions" (1948). It needs no
    bins, and is the same under any increasing change of scale. NaN counts as the greatest value. An empty sample has the greatest
    distance from any other.
    """
    mine, other = sorted(map(_place, ours)), sorted(map(_place, theirs))
    if not mine or not other:
        return Fraction(mine != other)
    gaps = (abs(bisect_right(mine, at) * len(other) - bisect_right(other, at) * len(mine)) for at in {*mine, *other})
    return Fraction(max(gaps), len(mine) * len(other))


def _place(value: Number) -> tuple[bool, Number]:
    return (True, 0) if math.isnan(value) else (False, value)
