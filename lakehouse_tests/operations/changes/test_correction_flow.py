"""A correction is proposed, agreed to by as many people as the contract asks for, and enters as a file like any other."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse import locations
from lakehouse.contracts import Catalog
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers import history
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement.pending import find_due, find_pending
from lakehouse.ledger import redactions
from lakehouse.ledger.redactions import Redaction
from lakehouse.operations.changes import correction_flow, correction_record
from lakehouse.operations.changes.correction_record import CorrectionError, Operation
from lakehouse_tests.support.lake import SampleLake, contract, csv_file
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, metric, without_spark
from lakehouse_tests.support.stopped_commits import Killed

if TYPE_CHECKING:
    from lakehouse.operations.changes.correction_record import Correction

pytestmark = pytest.mark.spark

FIRST = date(2024, 1, 2)
METRIC = MetricContract.model_validate(
    {
        "metric": "total",
        "source": "events",
        "measures": [{"name": "total", "sql": "sum(amount)", "type": "long", "additive": True}],
        "publication": {"final_after": 3, "approvals": 2},
    }
)


@dataclass
class Deployment:
    """Two rows of one day, published; the clock stands on the day after."""

    sample: SampleLake
    day: int = 3

    @property
    def catalog(self) -> Catalog:
        return Catalog({"events": self.sample.contract}, {"total": METRIC})

    def at(self, day: int) -> None:
        self.day = day
        self.sample.lake.settings.now = datetime(2024, 1, day, 12, tzinfo=timezone.utc)

    def publish(self) -> int:
        """Ingest what has arrived today, publish, and return the total of the first day."""
        self.sample.ingest(date(2024, 1, self.day))
        if pending := self.sample.pending():
            self.sample.update(pending)
        lake, series = self.sample.lake, Series(METRIC)
        follows = find_pending(lake, series)
        starts = {*follows.starts, *find_due(lake, self.sample.contract, series)}
        restatement_days.restate(lake, self.sample.contract, series, lambda: self.sample.spark, starts, Run("run"), follows)
        total: int = history.newest(lake, series)[FIRST].rows[0]["total"]
        return total

    def propose(self, key: str, operation: Operation = Operation.CORRECT, by: str = "anna", **values: str) -> Correction:
        change = correction_flow.RecordChange(key, operation, values)
        return correction_flow.propose(self.sample.lake, self.catalog, "events", change, by, "typo")

    def approve(self, correction: Correction, by: str) -> Correction:
        return correction_flow.approve(self.sample.lake, self.catalog, "events", correction.correction_id[:6], by, "checked")


@pytest.fixture(name="deployment")
def _deployment(lake, spark) -> Deployment:
    deployment = Deployment(SampleLake(lake, contract(), spark))
    lines = [f"{key},{amount},2024-01-02T06:00:00Z,2024-01-03T06:00:00Z,insert,," for key, amount in (("a", 10), ("b", 20))]
    deployment.sample.deliver(date(2024, 1, 3), csv_file(lines))
    deployment.at(3)
    assert deployment.publish() == 30
    return deployment


@pytest.mark.parametrize(("day", "approvals", "needed"), [(3, 2, 2), (30, 2, 1), (3, 1, 1)])
def test_a_correction_of_a_dimension_needs_who_approves_what_joins_it(lake, day: int, approvals: int, needed: int) -> None:
    join = {"dimension": "stores", "on": ["id"], "columns": ["name"]}
    stores = contract(dataset="stores", kind="dimension", changes={})
    joining = metric(joins=[join], publication={"final_after": 1, "approvals": approvals}).with_contracts({"stores": stores})
    with without_spark():
        numbers = ScriptedNumbers(lake, joining)
        numbers.at(9)
        numbers.set(5, 10)
        numbers.publish()
    catalog = Catalog({"events": contract(), "stores": stores}, {"total": joining})
    assert correction_flow.approvals_needed(lake, catalog, "stores", [date(2024, 1, day)]) == needed


@pytest.mark.merge
def test_one_person_corrects_a_day_that_is_not_final(deployment: Deployment) -> None:
    deployment.at(4)
    done = deployment.propose("a", amount="12")
    assert done.end is not None
    assert done.end.file == f"arrival_date=2024-01-04.correction-{done.correction_id}.csv"
    assert deployment.publish() == 32
    deployment.propose("b", Operation.WITHDRAW)
    assert deployment.publish() == 12
    deployment.propose("c", Operation.ENTER, id="c", amount="5", event_time="2024-01-02T10:00:00Z")
    assert deployment.publish() == 17
    deployment.at(5)
    for amount in ("10", "12", "10"):  # the same content twice is two corrections
        deployment.propose("a", amount=amount)
        deployment.publish()
    assert deployment.publish() == 15


@pytest.mark.merge
def test_a_withdrawn_record_can_be_entered_again(lake, spark) -> None:
    deployment = Deployment(SampleLake(lake, contract(order={"sequence": "seq"}), spark))
    lines = [f"{key},{amount},2024-01-02T06:00:00Z,2024-01-03T06:00:00Z,insert,,4" for key, amount in (("a", 10), ("b", 20))]
    deployment.sample.deliver(date(2024, 1, 3), csv_file(lines))
    deployment.at(3)
    assert deployment.publish() == 30
    deployment.at(4)
    deployment.propose("a", Operation.WITHDRAW)
    assert deployment.publish() == 20
    entered = {"id": "a", "amount": "5", "event_time": "2024-01-02T10:00:00Z"}
    done = deployment.propose("a", Operation.ENTER, **entered)
    deployment.sample.ingest(date(2024, 1, 4))
    again = deployment.propose("a", Operation.ENTER, **entered)
    assert again.correction_id == done.correction_id, "Bronze has its record, and silver does not follow yet"
    assert deployment.publish() == 25
    deployment.propose("a", amount="6")
    assert deployment.publish() == 26


@pytest.mark.merge
def test_a_record_that_was_corrected_under_another_key_can_be_entered_again(deployment: Deployment) -> None:
    deployment.at(4)
    line = "c,11,2024-01-02T06:00:00Z,2024-01-04T06:00:00Z,correct,a,"
    deployment.sample.deliver(date(2024, 1, 4), csv_file([line]))
    assert deployment.publish() == 31
    deployment.propose("a", Operation.ENTER, id="a", amount="5", event_time="2024-01-02T10:00:00Z")
    assert deployment.publish() == 36


@pytest.fixture(name="redacted")
def _redacted(lake, spark) -> Deployment:
    """The required note of ``a`` is redacted, and a correction that sets it was proposed before."""
    fields = [{"name": "id"}, {"name": "amount", "type": "int"}, {"name": "note", "column": "seq", "required": True}]
    fields = [{"type": "string", **spec} for spec in fields]
    deployment = Deployment(SampleLake(lake, contract(model={"fields": fields}), spark))
    lines = [f"{key},{amount},2024-01-02T06:00:00Z,2024-01-03T06:00:00Z,insert,,x" for key, amount in (("a", 10), ("b", 20))]
    deployment.sample.deliver(date(2024, 1, 3), csv_file(lines))
    deployment.at(3)
    assert deployment.publish() == 30
    deployment.at(9)
    deployment.publish()
    assert deployment.propose("a", note="y").end is None
    entry = Redaction("a", ["note"], "dpo", "request", lake.now(), touched_days=[FIRST])
    redactions.record(lake, "events", entry)
    return deployment


@pytest.mark.merge
def test_a_row_with_a_redacted_field_can_be_corrected(redacted: Deployment) -> None:
    redacted.publish()
    done = redacted.approve(redacted.propose("a", amount="12"), "ben")
    assert done.end is not None
    assert redacted.publish() == 32
    rows = locations.silver(redacted.sample.lake, "events").read(["record_key", "note"], {"record_key": ["a"]})
    assert rows.to_pylist() == [{"record_key": "a", "note": None}]
    assert not [row for row in redacted.sample.bronze("malformed_reason") if row["malformed_reason"]]


@pytest.mark.merge
def test_a_redacted_field_is_not_set(redacted: Deployment) -> None:
    with pytest.raises(CorrectionError, match=r"note of a is redacted, and stays masked .*: leave it out of --set"):
        redacted.propose("a", note="y", amount="12")
    [waiting] = correction_record.of_source(redacted.sample.lake, "events")
    assert waiting.described == "correct a: note [redacted] -> [redacted]"
    with pytest.raises(
        CorrectionError, match=f"note of a is redacted, .*: reject {waiting.correction_id}, and propose it without"
    ):
        redacted.approve(waiting, "ben")


@pytest.mark.merge
def test_a_final_number_needs_two_people(deployment: Deployment) -> None:
    deployment.at(9)
    deployment.publish()
    waiting = deployment.propose("a", amount="12")
    assert (waiting.end, waiting.proposal.needed) == (None, 2)
    assert deployment.publish() == 30
    with pytest.raises(CorrectionError, match=f"anna agreed to {waiting.correction_id} already: 2 different people have to"):
        deployment.approve(waiting, "anna")
    done = deployment.approve(waiting, "ben")
    assert [(event.kind.value, event.by) for event in done.events] == [
        ("proposed", "anna"),
        ("approved", "ben"),
        ("entered", "ben"),
    ]
    assert deployment.publish() == 32
    with pytest.raises(CorrectionError, match=f"{waiting.correction_id} is entered already, by ben: checked"):
        deployment.approve(waiting, "carl")
    other = deployment.propose("b", amount="21")
    rejected = correction_flow.reject(deployment.sample.lake, "events", other.correction_id, "carl", "no")
    assert rejected.end is not None
    assert rejected.end.kind.value == "rejected"
    assert deployment.publish() == 32


@pytest.mark.merge
def test_a_row_that_has_changed_since_the_proposal_is_not_overwritten(deployment: Deployment) -> None:
    deployment.at(9)
    deployment.publish()
    first, second = deployment.propose("a", amount="12"), deployment.propose("a", amount="13")
    deployment.approve(second, "ben")
    deployment.publish()
    with pytest.raises(CorrectionError, match=r"the row of a has changed since the proposal \(amount\): reject"):
        deployment.approve(first, "ben")


@pytest.mark.merge
def test_a_command_that_is_stopped_is_completed_by_the_next_one(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    deployment.at(9)
    deployment.publish()
    waiting = deployment.propose("a", amount="12")

    def stopped(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(correction_flow, "deliver", stopped)
        with pytest.raises(Killed):
            deployment.approve(waiting, "ben")
    assert deployment.publish() == 30
    real = correction_record.record
    with monkeypatch.context() as patched:
        patched.setattr(correction_record, "record", lambda lake, event: event.file is None and real(lake, event))
        deployment.approve(waiting, "ben")  # delivered, and not recorded
    assert deployment.publish() == 32
    deployment.at(10)
    assert deployment.approve(waiting, "carl").end is not None
    assert deployment.publish() == 32, "the file is the same: it counts once"


@pytest.mark.merge
@pytest.mark.parametrize("step", ["proposed", "delivered", "entered"])
def test_the_same_command_completes_what_it_has_begun(deployment: Deployment, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    assert deployment.publish() == 30

    def stopped(*_: object) -> None:
        raise Killed

    real = correction_record.record
    with monkeypatch.context() as patched:
        if step == "proposed":
            patched.setattr(correction_flow, "deliver", stopped)
        elif step == "delivered":
            patched.setattr(correction_record, "record", lambda lake, event: event.file is not None or real(lake, event))
        with suppress(Killed):
            deployment.propose("a", amount="12")
    assert deployment.propose("a", amount="12").end is not None
    assert len(correction_record.of_source(deployment.sample.lake, "events")) == 1
    assert deployment.publish() == 32
    deployment.propose("a", amount="12")
    assert len(correction_record.of_source(deployment.sample.lake, "events")) == 1, "the row is the one of this correction"
    deployment.propose("a", amount="10")
    assert deployment.publish() == 30
    deployment.propose("a", amount="12")
    assert deployment.publish() == 32, "the same words later are another correction"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("z", Operation.CORRECT, {"amount": "1"}), "silver/events has no row of z: 'lakehouse trace events z' shows"),
        (("a", Operation.CORRECT, {}), "nothing to correct of a: name a field with --set FIELD=VALUE"),
        (("a", Operation.CORRECT, {"size": "1"}), "events has no field size: it has id, amount, event_time"),
        (("a", Operation.CORRECT, {"amount": "1.5"}), "is not a valid record of events: amount"),
        (("a", Operation.ENTER, {"id": "a", "amount": "1"}), "silver/events has a row of a on 2024-01-02: correct it with --set"),
        (("z", Operation.ENTER, {"id": "z", "amount": "1"}), "event_time: required and empty"),
    ],
)
def test_what_cannot_be_corrected_is_said(deployment: Deployment, arguments: tuple[Any, ...], message: str) -> None:
    key, operation, values = arguments
    with pytest.raises(CorrectionError, match=message):
        deployment.propose(key, operation, **values)
    assert correction_record.of_source(deployment.sample.lake, "events") == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"materialization": {"reprocess_policy": "append"}, "changes": {}}, "events is kept under append"),
        ({"primary_key": [], "synthetic_key": {"fields": ["id"]}, "changes": {}}, "knows its records by a hash of their content"),
        ({"changes": {}}, "cannot be withdrawn: its contract has no changes.op"),
        (
            {"order": {"sequence": ["seq", "corrects"]}},
            "events orders its changes not by one integer, .* at its source",
        ),
        ({"changes": {}, "source": {"envelope": "delta_feed"}}, "events orders its changes not by one integer"),
    ],
)
def test_some_sources_take_no_corrections(lake, spark, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CorrectionError, match=message):
        Deployment(SampleLake(lake, contract(**changes), spark)).propose("a", Operation.WITHDRAW)
