"""The law of rule R10 on generated histories: whatever is delivered, decided, redacted and judged again, every published number
is reproduced, equal, from Bronze alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from lakehouse.stewardship import quarantine
from lakehouse.stewardship.redact import redact_fields
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import SampleLake, contract, csv_file, csv_line
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.reproducible_lake import BIGGEST, KEYS, TOTAL, WEEK_WATERMARK, ReproducibleLake, metric
from lakehouse_tests.support.silver_histories import NOON, record_at
from lakehouse_tests.support.steward_histories import ARRIVAL, Decide, Deliver, History, Redact, Update, histories

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark

#: The terms that a re-judging may bring: each bars other rows.
RULES: list[dict[str, Any]] = [
    WEEK_WATERMARK,
    {"lateness": {"watermark": "P30D", "beyond": "drop"}},
    {"quality": {"row_rules": [{"name": "small", "sql": "amount < 2", "severity": "reject"}]}},
    {},
]
METRICS = [metric("total", TOTAL, BIGGEST), metric("trailing", TOTAL, KEYS, window=2, grain=["amount"])]


@st.composite
def judged_histories(draw: st.DrawFn) -> tuple[History, list[int]]:
    """A history, and after each action the number of the rules by which all rows are judged again, or -1."""
    history = draw(histories())
    choices = st.sampled_from([-1, -1, -1, *range(len(RULES))])
    return history, draw(st.lists(choices, min_size=len(history.actions), max_size=len(history.actions)))


def run(reproducible: ReproducibleLake, history: History, judgings: list[int]) -> None:
    files = [[replace(record, sequence=0) for record in file] for file in history.files]
    known: list[Any] = []
    for number, (action, rules) in enumerate(zip(history.actions, judgings)):
        reproducible.lake.settings.now = NOON + timedelta(days=2, hours=number * 12)
        sample = reproducible.sample
        if isinstance(action, Deliver):
            sample.deliver(ARRIVAL, csv_file(map(csv_line, files[action.file])), f".{action.file}.csv")
            (entry,) = sample.ingest(ARRIVAL).ingested
            known += [(entry.ingestion_id, line, record.key) for line, record in enumerate(files[action.file], 2)]
        elif isinstance(action, Decide):
            row = known[action.record % len(known)][:2]
            quarantine.decide(reproducible.lake, sample.contract, [row], action.verdict, by="s", reason=f"{number}")
        elif isinstance(action, Redact):
            if any(action.key == key for _, _, key in known):
                redact_fields(reproducible.lake, sample.contract, action.key, ["amount"], by="s", reason="asked")
        elif isinstance(action, Update):
            reproducible.publish(action.days & set(sample.pending()))
        if rules >= 0:
            reproducible.rebuild(contract(**RULES[rules]))
        reproducible.publish(sample.pending()[::2] if number % 3 else None)
    reproducible.lake.settings.now = NOON + timedelta(days=30)
    reproducible.publish()
    reproducible.vacuum()
    made = reproducible.reproduce_all()
    assume(made)  # else nothing but deletes counts, and nothing was ever published
    assert [(reproduction.name, reproduction.differences) for reproduction in made if not reproduction.equal] == []
    newest = {reproduction.name.rsplit(".r", 1)[0]: reproduction for reproduction in made}
    assert all(not reproduction.hidden for reproduction in newest.values()), "the newest is made under all redactions"


def of_folder(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> ReproducibleLake:
    return ReproducibleLake(SampleLake(lake_in(tmp_path_factory.mktemp("lake")), contract(), spark), METRICS)


#: A number is published, a row is rejected, and all rows are judged again under two other contracts; a file moves a row and
#: retires another, and a value is redacted.
CORNERS = (
    History(
        [
            [record_at(1, "a", "insert", 0), record_at(2, "b", "insert", 2), record_at(3, "c", "insert", 2)],
            [record_at(4, "a", "correct", 3), record_at(5, "new", "correct", 2, corrects="b")],
        ],
        [Deliver(0), Decide(2, "reject"), Deliver(1), Redact("a")],
    ),
    [-1, 1, 2, -1],
)


@pytest.mark.proof
@pytest.mark.timeout(2400)
@law(25)
@example(history=CORNERS)
@given(history=judged_histories())
def test_every_published_number_is_reproduced(tmp_path_factory, spark, history: Any) -> None:
    run(of_folder(tmp_path_factory, spark), *history)
