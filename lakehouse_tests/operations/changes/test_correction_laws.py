"""The law of approvals: a correction is entered when enough different people agree, whatever else they try, and settled once."""

from __future__ import annotations

from datetime import date, datetime, timezone
from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.contracts import Catalog
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.operations.changes import correction_flow
from lakehouse.operations.changes.correction_record import CorrectionError, Operation
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import SampleLake, contract, csv_file
from lakehouse_tests.support.laws import law

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NEEDED = 3
AMOUNTS = count(12)
ARRIVED = date(2024, 1, 3)
PEOPLE = st.sampled_from(["anna", "ben", "carl", "dora"])
STEPS = st.lists(st.tuples(st.sampled_from(["approve", "approve", "approve", "reject"]), PEOPLE), max_size=7)
METRIC = MetricContract.model_validate(
    {
        "metric": "total",
        "source": "events",
        "measures": [{"name": "total", "sql": "sum(amount)", "type": "long", "additive": True}],
        "publication": {"final_after": 3, "approvals": NEEDED},
    }
)


@pytest.fixture(scope="module")
def sample(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SampleLake:
    """A row of a day whose number is final."""
    made = SampleLake(lake_in(tmp_path_factory.mktemp("lake")), contract(), spark)
    made.lake.settings.now = datetime(2024, 1, 9, 12, tzinfo=timezone.utc)
    made.deliver(ARRIVED, csv_file(["a,10,2024-01-02T06:00:00Z,2024-01-03T06:00:00Z,insert,,"]))
    made.ingest(ARRIVED)
    made.update()
    series = Series(METRIC)
    follows = find_pending(made.lake, series)
    restatement_days.restate(made.lake, made.contract, series, lambda: spark, follows.starts, Run("run"), follows)
    return made


@law(100, in_each_run=10)
@given(proposer=PEOPLE, steps=STEPS)
def test_a_correction_of_a_final_number_is_entered_by_enough_different_people(
    sample: SampleLake, proposer: str, steps: list[tuple[str, str]]
) -> None:
    catalog = Catalog({"events": sample.contract}, {"total": METRIC})
    # Another value each time: the same proposal again is the one that is entered already, and silver does not follow here.
    values = {"amount": f"{next(AMOUNTS)}"}
    change = correction_flow.RecordChange("a", Operation.CORRECT, values)
    proposed = correction_flow.propose(sample.lake, catalog, "events", change, proposer, "typo")
    agreed, settled = {proposer}, None
    for action, person in steps:
        is_possible = settled is None and (action == "reject" or person not in agreed)
        try:
            if action == "approve":
                done = correction_flow.approve(sample.lake, catalog, "events", proposed.correction_id, person, "checked")
            else:
                done = correction_flow.reject(sample.lake, "events", proposed.correction_id, person, "no")
        except CorrectionError:
            assert not is_possible
            continue
        assert is_possible
        if action == "approve":
            agreed.add(person)
        settled = "rejected" if action == "reject" else "entered" if len(agreed) == NEEDED else None
        assert (None if done.end is None else done.end.kind.value) == settled
        assert set(done.agreed) == agreed
