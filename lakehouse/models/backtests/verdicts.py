"""The evaluation of a model's acceptance rules: the rules that a challenger does not meet, where, and by how much.

The rules apply to the difference measured over all rows, not to its interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import isnan
from typing import TYPE_CHECKING

from lakehouse.models import evaluation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakehouse.contracts.training.acceptance import AcceptanceRule
    from lakehouse.contracts.training.model import ModelContract
    from lakehouse.models.backtests.comparison import ScoredPair

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


def failed(verdicts: Sequence[RuleVerdict]) -> list[RuleVerdict]:
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
        evaluation.quality(of_one, ordered.labels, scores)[rule.metric] for scores in (ordered.champion, ordered.challenger)
    )
    return challenger - champion if contract.measures[rule.metric] else champion - challenger
