"""``ops/backtests``: the comparisons of two model versions on the same rows, and whether they met the acceptance rules.

A result has the comparison and the verdicts for each reading of the rows, as objects and in stored form. Acceptance rules are
evaluated here: the rules that a challenger does not meet, where, and by how much. Comparing versions belongs to ``comparison``,
running a backtest to ``backtest``; the consequences belong to ``promotion``.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from enum import Enum
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.ledger.log_table import LogTable
from lakehouse.models import comparison
from lakehouse.models.comparison import LEVEL, ComparedPart, ModelComparison

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from lakehouse.contracts.model import AcceptanceRule, ModelContract
    from lakehouse.lake import Lake
    from lakehouse.models.comparison import ScoredPair


#: A tolerance for floating-point errors: 0.85 - 0.80 is less than 0.05.
_ROUNDING = 1e-9


class Verdict(str, Enum):
    """The outcome of a rule: met, not met, or not judged for lack of rows."""

    MET = "met"
    NOT_MET = "not met"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class RuleVerdict:
    """The verdict of a rule on all rows or on a segment.

    ``gain`` is the improvement of the challenger, negative if it is worse, and NaN if it cannot be measured; ``least_gain`` is
    the required gain.
    """

    rule: str
    segment: str | None
    rows: int
    gain: float
    least_gain: float
    verdict: Verdict

    @property
    def text(self) -> str:
        """The verdict as a sentence."""
        about = f"{self.rule} ({self.segment}, {self.rows:,} rows)" if self.segment is not None else self.rule
        if self.verdict is Verdict.NOT_JUDGED:
            return f"{about}: not judged, there are too few rows or labels"
        if isnan(self.gain):
            return f"{about}: not met, it cannot be measured on these rows"
        lacking = f", which is {self.least_gain - self.gain:.4g} too little" if self.verdict is Verdict.NOT_MET else ""
        direction = "better" if self.gain >= 0 else "worse"
        return f"{about}: {self.verdict.value}, it is {abs(self.gain):.4g} {direction}{lacking}"


def judge(contract: ModelContract, rules: Sequence[AcceptanceRule], rows: ScoredPair) -> list[RuleVerdict]:
    """Evaluate each rule on ``rows``; a rule by a feature gives a verdict for each of its values."""
    return [verdict for rule in rules for verdict in _verdicts(contract, rule, rows)]


def failed_rules(verdicts: Sequence[RuleVerdict]) -> list[RuleVerdict]:
    """The verdicts that are not met."""
    return [verdict for verdict in verdicts if verdict.verdict is Verdict.NOT_MET]


def _verdicts(contract: ModelContract, rule: AcceptanceRule, rows: ScoredPair) -> Iterator[RuleVerdict]:
    if rule.by is None:
        gain = _gain(contract, rule, rows)
        yield _verdict(rule, None, rows, gain, is_judged=True)
        return
    for value, part in rows.parts(rows.segments[rule.by]).items():
        gain = _gain(contract, rule, part)
        is_judged = len(part.labels) >= rule.needs_rows and not isnan(gain)
        yield _verdict(rule, f"{rule.by} {value}", part, gain, is_judged=is_judged)


def _verdict(rule: AcceptanceRule, segment: str | None, rows: ScoredPair, gain: float, *, is_judged: bool) -> RuleVerdict:
    is_met = gain >= rule.least_gain - _ROUNDING
    verdict = (Verdict.MET if is_met else Verdict.NOT_MET) if is_judged else Verdict.NOT_JUDGED
    return RuleVerdict(rule.text, segment, len(rows.labels), gain, rule.least_gain, verdict)


def _gain(contract: ModelContract, rule: AcceptanceRule, rows: ScoredPair) -> float:
    of_one = contract.model_copy(update={"metrics": [rule.metric]})
    ordered = rows.ordered()
    champion, challenger = (
        comparison.quality(of_one, ordered.labels, scores)[rule.metric] for scores in (ordered.champion, ordered.challenger)
    )
    return challenger - champion if contract.measures[rule.metric] else champion - challenger


#: The content of each reading, in words.
READINGS = {
    "as_known": "features as they were known at the event",
    "as_corrected": "features as corrected since",
}


@dataclass(frozen=True)
class ReadingResult:
    """The measurements and verdicts on the rows of one reading."""

    comparison: ModelComparison
    verdicts: list[RuleVerdict]


@dataclass(frozen=True)
class BacktestResult:
    """The comparison of ``version`` with ``against``.

    :param judged: the reading whose verdicts count: that of the training set.
    :param readings: the results by reading.
    :param rules: the evaluated acceptance rules, as text.
    :param seen: for each version trained on any of these rows, the number of such rows; its measures are too good.
    """

    model: str
    version: str
    against: str
    judged: str
    readings: Mapping[str, ReadingResult]
    resamples: int
    seed: int
    rules: Sequence[str] = ()
    seen: Mapping[str, int] = field(default_factory=dict)

    @property
    def failed(self) -> list[RuleVerdict]:
        """The rules not met, on the decisive rows."""
        return failed_rules(self.readings[self.judged].verdicts)

    @property
    def passed(self) -> bool:
        """Whether every rule is met, or not evaluated."""
        return not self.failed

    @property
    def rows(self) -> int:
        """The number of rows on which the versions were compared."""
        return self.readings[self.judged].comparison.total.rows

    @property
    def remarks(self) -> list[str]:
        """Remarks that a reader needs to interpret the numbers, as sentences."""
        return [
            f"{version} was trained on events of the same time as {rows:,} of these rows: its measures are too good"
            for version, rows in self.seen.items()
        ]

    def stored(self) -> dict[str, Any]:
        """The result for JSON; a number that could not be measured is null."""
        readings = {name: stored_reading(reading) for name, reading in self.readings.items()}
        stored: dict[str, Any] = _finite(
            {
                "judged": self.judged,
                "rules": list(self.rules),
                "readings": readings,
                "seen": dict(self.seen),
                "remarks": self.remarks,
                "resamples": self.resamples,
                "seed": self.seed,
                "level": LEVEL,
            }
        )
        return stored

    @property
    def content(self) -> str:
        """A short hash of the result: the same rows and models give the same hash."""
        text = json.dumps([self.model, self.version, self.against, self.stored()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]


def reading_result(
    contract: ModelContract,
    rules: Sequence[AcceptanceRule],
    rows: ScoredPair,
    months: Sequence[str],
    *,
    resamples: int,
    seed: int,
) -> ReadingResult:
    """Compare two versions on ``rows`` and evaluate the rules."""
    compared = comparison.compare(contract, rows, months, resamples=resamples, seed=seed)
    return ReadingResult(compared, judge(contract, rules, rows))


def stored_reading(reading: ReadingResult) -> dict[str, Any]:
    """The result of a reading for JSON; a number that could not be measured is null."""
    stored: dict[str, Any] = _finite(
        {
            "months": {part.name: _part(part) for part in reading.comparison.months},
            "total": _part(reading.comparison.total),
            "rules": [{**asdict(verdict), "verdict": verdict.verdict.value} for verdict in reading.verdicts],
        }
    )
    return stored


def _part(part: ComparedPart) -> dict[str, Any]:
    measures = {
        measure.name: {side: asdict(getattr(measure, side)) for side in ("champion", "challenger", "difference")}
        for measure in part.measures
    }
    return {"rows": part.rows, "positives": part.positives, "measures": measures}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not isfinite(value) else value


@dataclass(frozen=True)
class Backtest:
    """A comparison of ``version``, the challenger, with the version ``against``.

    :param first_month: the first month of the rows scored by both versions, as 2024-10; ``last_month``: the last month.
    :param known_at: the time whose knowledge the rows contain.
    :param passed: whether every acceptance rule of the contract was met.
    :param failed: the rules that were not met, each as a sentence with its numbers.
    :param results: the measures of both versions, by month and in total, and the evaluated rules.
    :param report: the address of the report.
    """

    model: str
    version: str
    against: str
    first_month: str
    last_month: str
    known_at: datetime
    passed: bool
    failed: list[str]
    results: Mapping[str, Any]
    report: str
    by: str
    recorded_at: datetime

    @property
    def title(self) -> str:
        """The compared versions and months as text."""
        months = self.first_month if self.first_month == self.last_month else f"{self.first_month} to {self.last_month}"
        return f"{self.version} against {self.against} on {months}"

    @property
    def rules(self) -> list[str]:
        """The acceptance rules of the contract at the time, as text."""
        rules: list[str] = self.results.get("rules", [])
        return rules

    @property
    def measures(self) -> Mapping[str, Any]:
        """By measure: the champion's value, the challenger's and their difference, with intervals, over the decisive rows."""
        judged = self.results.get("readings", {}).get(self.results.get("judged"), {})
        measures: Mapping[str, Any] = judged.get("total", {}).get("measures", {})
        return measures


def log(lake: Lake) -> LogTable[Backtest]:
    """The table of backtests."""
    return LogTable(Backtest, lake, locations.backtests(lake), partition_by="model")


def backtests_of(lake: Lake, model: str) -> list[Backtest]:
    """The backtests of a model, oldest first."""
    return sorted(log(lake).read({"model": [model]}), key=lambda entry: (entry.recorded_at, entry.version, entry.against))


def newest_backtest(lake: Lake, model: str, version: str, against: str) -> Backtest | None:
    """The last recorded backtest of ``version`` against ``against``; None without one."""
    of_both = [entry for entry in backtests_of(lake, model) if (entry.version, entry.against) == (version, against)]
    return of_both[-1] if of_both else None
