"""The rules of a metric's contract for a new number before readers see it (rule R8), under the key ``checks:``.

Only the rules and their bounds belong here. The comparison is in ``gold.publication.checks``, the statistics are in
``quality.statistics``. Bounds are decimals: a number that lies exactly on its bound is within it.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from lakehouse.contracts.base import Name, Strict

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

Severity = Literal["error", "warn"]
#: Enough digits for any decimal(38,s), and no exponent that would exhaust memory.
Bound = Annotated[Decimal, Field(ge=0, max_digits=76, decimal_places=38)]
Share = Annotated[Decimal, Field(ge=0, le=1, decimal_places=38)]


class Rule(Strict):
    """The parts common to all rules. A failed rule of a source holds nothing: its severity only affects its display."""

    severity: Severity = Field("error", description="What a failure does: 'error' holds the number, 'warn' is reported only.")


class LooksBack(Strict):
    """The number of days before the period that a rule uses, and how many of them must be published for the rule to apply."""

    days: int = Field(28, ge=1, le=366, description="How many days before the period are used.")
    needs: int = Field(7, ge=1, description="With fewer days that have a published number nothing is judged.")

    @model_validator(mode="after")
    def _reachable(self) -> LooksBack:
        if self.needs > self.days:
            msg = f"needs: {self.needs} of {self.days} days is impossible; ask for {self.days} at most, or increase 'days'"
            raise ValueError(msg)
        return self


class Trailing(LooksBack):
    """Bounds on the ratio of a period's row count to the median row count of the trailing days."""

    at_least: Bound = Field(Decimal("0.5"), description="The smallest ratio; 0 for none.")
    at_most: Bound | None = Field(Decimal(2), description="The greatest ratio; null for none.")
    severity: Severity | None = Field(None, description="Default: that of row_count.")

    @model_validator(mode="after")
    def _ordered(self) -> Trailing:
        if self.at_most is not None and self.at_least > self.at_most:
            msg = f"at_least: {self.at_least} lies above at_most: {self.at_most}"
            raise ValueError(msg)
        return self


class RowCount(Rule):
    """The bounds on the number of silver rows of a period: the sum of row_count over its grain rows."""

    min: int | None = Field(None, ge=0, description="The fewest rows.")
    max: int | None = Field(None, ge=0, description="The most rows.")
    trailing: Trailing | None = None

    @model_validator(mode="after")
    def _judges(self) -> RowCount:
        if self.min is None and self.max is None and self.trailing is None:
            msg = "has no bound; give min, max or trailing"
            raise ValueError(msg)
        if self.min is not None and self.max is not None and self.min > self.max:
            msg = f"min: {self.min} lies above max: {self.max}"
            raise ValueError(msg)
        return self


class NullShare(Rule):
    """The greatest share of a period's grain rows in which a measure may be NULL. A bare number is short for ``at_most``."""

    at_most: Share


def _in_full(value: object) -> object:
    return value if isinstance(value, dict | NullShare) else {"at_most": value}


#: By measure, or by a source's field.
NullShares = dict[Name, Annotated[NullShare, BeforeValidator(_in_full)]]


class Drift(Rule, LooksBack):
    """The greatest distance of a measure from published values: as a sample of grain rows, or as one number per period.

    ``max_distance`` is for metrics with a grain: the two-sample Kolmogorov-Smirnov distance of the grain rows' values from those
    of the published revision, or of all trailing days together. ``max_score`` is for any metric: the modified z-score of the
    measure's total (without a grain: its value) among the totals of the trailing days.
    """

    measure: Name
    against: Literal["trailing", "published"] = Field("trailing", description="What the number is compared with.")
    max_distance: Share | None = Field(None, description="0: the same distribution; 1: no overlap. 0.2 to 0.3 is usual.")
    max_score: Bound | None = Field(None, description="In robust standard deviations, either way; 3.5 is usual.")
    needs_rows: int = Field(
        20, ge=1, description="A distance is only judged between samples of at least this many values; fewer differ by chance."
    )

    @model_validator(mode="after")
    def _one_statistic(self) -> Drift:
        if (self.max_distance is None) == (self.max_score is None):
            msg = "give max_distance (metrics with a grain) or max_score: one of the two"
            raise ValueError(msg)
        unused = {"needs_rows"} if self.max_distance is None else set()
        if self.against == "published":
            if self.max_score is not None:
                msg = "max_score: needs many days to compare with; set 'against: trailing', or bound the move with 'change'"
                raise ValueError(msg)
            unused = {"days", "needs"}
        for name in sorted(unused & self.model_fields_set):
            msg = f"{name}: has no effect here; leave it out"
            raise ValueError(msg)
        return self


class ChangeBounds(Strict):
    """The greatest change of a measure's period total by a restatement. If both bounds are given, both must hold."""

    percent: Bound | None = Field(None, description="Of the published total; any change of a total of 0 exceeds it.")
    absolute: Bound | None = Field(None, description="In the measure's unit; in quotes if it has over 15 digits.")

    @model_validator(mode="after")
    def _bounds(self) -> ChangeBounds:
        if self.percent is None and self.absolute is None:
            msg = "has no bound; give percent, absolute or both"
            raise ValueError(msg)
        return self


class ChangeLimit(Rule, ChangeBounds):
    """The bounds within which a measure may change for readers: a number that exceeds them is held, or reported."""

    measure: Name


class GoldChecks(Strict):
    """The rules of a metric."""

    row_count: RowCount | None = None
    nulls: NullShares = Field(default_factory=dict)
    drift: list[Drift] = Field(default_factory=list)
    change: list[ChangeLimit] = Field(default_factory=list)

    @property
    def trailing_days(self) -> int:
        """The number of days before a period that these rules use; 0 if no rule uses any."""
        counts = [rule.days for rule in self.drift if rule.against == "trailing"]
        if self.row_count and self.row_count.trailing:
            counts.append(self.row_count.trailing.days)
        return max(counts, default=0)


def problems(checks: GoldChecks, types: Mapping[str, str], grain: Collection[str]) -> list[str]:
    """The rules that do not fit the metric, each as ``field: what to do``.

    :param types: the Spark type of each measure.
    """
    return list(_problems(checks, types, grain))


def _problems(checks: GoldChecks, types: Mapping[str, str], grain: Collection[str]) -> Iterator[str]:
    compared: list[tuple[str, Any]] = [("drift", rule) for rule in checks.drift]
    compared += [("change", rule) for rule in checks.change]
    named = [("nulls", measure) for measure in checks.nulls] + [(key, rule.measure) for key, rule in compared]
    for key, measure in dict.fromkeys(named):
        if measure not in types:
            yield f"checks.{key}: no measure is called {measure!r}; there are {', '.join(types)}"
        elif key != "nulls" and not _is_number(types[measure]):
            yield f"checks.{key}: {measure!r} is a {types[measure]}; only numbers can be compared like this"
    if not grain and any(rule.max_distance is not None for rule in checks.drift):
        yield "checks.drift: max_distance compares grain rows, and the metric has no grain; use max_score"


def _is_number(kind: str) -> bool:
    return kind in {"int", "bigint", "double"} or kind.startswith("decimal")
