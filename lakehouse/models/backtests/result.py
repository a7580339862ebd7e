"""The result of a backtest: the comparison and the verdicts for each reading of the rows, as objects and in stored form."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any

from lakehouse.models.backtests import comparison, verdicts
from lakehouse.models.backtests.comparison import LEVEL, ComparedPart, ModelComparison

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakehouse.contracts.training.acceptance import AcceptanceRule
    from lakehouse.contracts.training.model import ModelContract
    from lakehouse.models.backtests.comparison import ScoredPair
    from lakehouse.models.backtests.verdicts import RuleVerdict

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
        return verdicts.failed(self.readings[self.judged].verdicts)

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
    return ReadingResult(compared, verdicts.judge(contract, rules, rows))


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
