"""Acceptance rules on the rows of a comparison: in total and by segment, with the amount that is lacking."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakehouse.contracts.model import AcceptanceRule
from lakehouse.models.backtest_log import Verdict, failed_rules, judge
from lakehouse.models.comparison import ScoredPair
from lakehouse_tests.support.scored_rows import model_contract

CONTRACT = model_contract()


def _pair(labels: str, champion: list[float], challenger: list[float], countries: str | None = None) -> ScoredPair:
    segments = {"country": pa.array(list(countries))} if countries else {}
    months = pa.array(["2024-10"] * len(labels))
    return ScoredPair(months, np.array(list(labels), dtype=float), np.array(champion), np.array(challenger), segments)


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        ({"metric": "accuracy", "better_by": 0.25}, Verdict.MET),
        ({"metric": "accuracy", "better_by": 0.26}, Verdict.NOT_MET),
        ({"metric": "accuracy", "not_worse_than": 0}, Verdict.MET),
        ({"metric": "brier_score", "better_by": 0.1}, Verdict.MET),
        ({"metric": "brier_score", "better_by": 0.3}, Verdict.NOT_MET),
    ],
)
def test_the_difference_decides_in_the_direction_that_is_better(rule, verdict) -> None:
    rows = _pair("0011", [0, 1, 1, 1], [0, 0, 1, 1])  # accuracy 0.75 -> 1, Brier score 0.25 -> 0
    (judged,) = judge(CONTRACT, [AcceptanceRule(**rule)], rows)
    assert judged.verdict is verdict
    assert judged.gain == pytest.approx(0.25)


def test_a_version_may_be_worse_by_what_the_rule_allows() -> None:
    rows = _pair("0011", [0, 0, 1, 1], [0, 1, 1, 1])
    allowed, forbidden = (AcceptanceRule(metric="accuracy", not_worse_than=bound) for bound in (0.25, 0.2))
    met, missed = judge(CONTRACT, [allowed, forbidden], rows)
    assert (met.verdict, missed.verdict) == (Verdict.MET, Verdict.NOT_MET)
    assert failed_rules([met, missed]) == [missed]
    assert missed.text == "accuracy not worse than 0.2: not met, it is 0.25 worse, which is 0.05 too little"


def test_a_bound_is_not_missed_by_a_rounding_error() -> None:
    labels = "1" * 20
    of_champion, of_challenger = [1.0] * 16 + [0.0] * 4, [1.0] * 17 + [0.0] * 3
    assert 17 / 20 - 16 / 20 < 0.05
    (judged,) = judge(CONTRACT, [AcceptanceRule(metric="accuracy", better_by=0.05)], _pair(labels, of_champion, of_challenger))
    assert judged.verdict is Verdict.MET


def test_a_rule_by_feature_is_judged_for_each_value_with_enough_rows() -> None:
    rule = AcceptanceRule(metric="accuracy", not_worse_than=0.1, by="country", needs_rows=2)
    rows = _pair("010110", [0, 1, 0, 1, 1, 1], [0, 1, 1, 0, 1, 0], "AABBCB")
    by_segment = {verdict.segment: verdict for verdict in judge(CONTRACT, [rule], rows)}
    assert {name: verdict.verdict for name, verdict in by_segment.items()} == {
        "country A": Verdict.MET,
        "country B": Verdict.NOT_MET,
        "country C": Verdict.NOT_JUDGED,
    }
    assert by_segment["country B"].rows == 3
    assert "country B, 3 rows" in by_segment["country B"].text


def test_what_cannot_be_measured_is_not_met_in_total_and_not_judged_in_a_segment() -> None:
    rows = _pair("0000", [0.1] * 4, [0.2] * 4, "AAAA")
    in_total = AcceptanceRule(metric="roc_auc", not_worse_than=0.1)
    by_country = AcceptanceRule(metric="roc_auc", not_worse_than=0.1, by="country", needs_rows=1)
    whole, segment = judge(CONTRACT, [in_total, by_country], rows)
    assert (whole.verdict, segment.verdict) == (Verdict.NOT_MET, Verdict.NOT_JUDGED)
    assert whole.text.endswith("cannot be measured on these rows")
