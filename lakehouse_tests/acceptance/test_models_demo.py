"""``lakehouse demo --models`` by the real command: from labels to a model in use and back, by its tables and its output."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest

from lakehouse.contracts import load_catalog
from lakehouse.examples.card_payments import deliveries
from lakehouse.examples.card_payments.deliveries import payments
from lakehouse.lake import Lake, Table
from lakehouse.models import backtest_log, promotion_log, retraining, tracking
from lakehouse.models.retraining import RetrainingStep
from lakehouse.settings import Settings
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import Release, ReleaseKind
from lakehouse_tests.support.card_payments_model import all_records, known_then, labels
from lakehouse_tests.support.cli import lakehouse_command

if TYPE_CHECKING:
    import subprocess

    from lakehouse.contracts import ModelContract

pytestmark = [pytest.mark.spark, pytest.mark.proof]

SEED = 7
RELEASED = datetime(2024, 11, 1, 8, tzinfo=timezone.utc)
CORRECTED = datetime(2025, 2, 11, tzinfo=timezone.utc)


class ModelsDemo:
    """What the demo printed, and the lake that it left."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.printed = self.run("demo", "--models").stdout
        self.lake = Lake(Settings(root=str(home / "lake")))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        contracts = f"{self.home / 'lake' / 'demo_models_contracts'}"
        done = lakehouse_command(self.home, *arguments, LAKEHOUSE_CONTRACTS=contracts)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        assert "Warning:" not in done.stderr
        return done

    def released(self, kind: ReleaseKind) -> dict[str, Release]:
        return {entry.version: entry for entry in releases.all_of(self.lake, kind)}

    def set_rows(self, version: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = releases.read_set(self.lake, self.released(ReleaseKind.TRAINING_SET)[version]).to_pylist()
        return rows

    @property
    def contract(self) -> ModelContract:
        return load_catalog(self.home / "lake" / "demo_models_contracts", bundled=False).models[deliveries.MODEL]

    def table_versions(self) -> dict[str, int]:
        logs = sorted((self.home / "lake").glob("*/*/_delta_log"))
        return {f"{log.parent.relative_to(self.home)}": Table(str(log.parent)).open().version() for log in logs}


@pytest.fixture(name="demo", scope="module")
def _demo(tmp_path_factory: pytest.TempPathFactory) -> ModelsDemo:
    return ModelsDemo(tmp_path_factory.mktemp("models_demo"))


def test_every_step_is_recorded_and_printed_in_order(demo: ModelsDemo) -> None:
    assert list(demo.released(ReleaseKind.LABELS)) == ["v3.0", "v3.1"]
    assert list(demo.released(ReleaseKind.TRAINING_SET)) == ["v5.0", "v5.1"]
    learned = {version: entry.about["training_set"]["version"] for version, entry in demo.released(ReleaseKind.MODEL).items()}
    assert learned == {"v2.3": "v5.0", "v2.4": "v5.0", "v2.5": "v5.1"}
    days = re.findall(r"^(20\d\d-\d\d-\d\d)  ", demo.printed, re.MULTILINE)
    assert days == sorted(days)
    assert len(days) == 6
    for text in ("chargebacks_v3.0", "training_data_v5.0", "v2.4 against v2.3", "fraud v2.4 is in use", "training_data_v5.1"):
        assert text in demo.printed
    assert demo.printed.index("fraud v2.4 is in use in place of v2.3") < demo.printed.index(
        "fraud v2.3 is in use in place of v2.4"
    )


def test_the_set_has_each_payment_as_it_was_known_when_it_happened(demo: ModelsDemo) -> None:
    rows = {row["record_key"]: row for row in demo.set_rows("v5.0")}
    until = datetime(2024, 10, 1, tzinfo=timezone.utc)
    assert set(rows) == {payment.payment_id for payment in payments(SEED) if payment.paid_at < until}
    known = known_then(SEED)
    assert {key: (row["tier"], row["home_country"], row["country_payments"]) for key, row in rows.items()} == {
        key: known[key] for key in rows
    }
    assert any(row["country_payments"] is None for row in rows.values()), "before the first delivery no number was published"


def test_its_labels_are_those_that_were_known_at_the_release(demo: ModelsDemo) -> None:
    then = labels(all_records(SEED), RELEASED)
    rows = demo.set_rows("v5.0")
    assert {row["record_key"]: row["label"] for row in rows} == {
        row["record_key"]: then.get(row["record_key"], 0) for row in rows
    }
    known_at = [row["label_known_at"] for row in rows if row["label_known_at"] is not None]
    assert max(known_at) <= RELEASED


def test_after_the_investigation_the_labels_of_the_summer_are_the_truth(demo: ModelsDemo) -> None:
    truth = {payment.payment_id: int(payment.fraudulent) for payment in payments(SEED)}
    summer = [row for row in demo.set_rows("v5.1") if row["event_ts"] < deliveries.INVESTIGATED_UNTIL]
    assert len(summer) > 5_000
    assert {row["record_key"]: row["label"] for row in summer} == {row["record_key"]: truth[row["record_key"]] for row in summer}


def test_the_impact_is_that_of_a_comparison_of_all_labels(demo: ModelsDemo) -> None:
    rows = demo.set_rows("v5.0")
    now = labels(all_records(SEED), CORRECTED)
    turned = sum(row["label"] != now.get(row["record_key"], 0) for row in rows)
    records = len(deliveries.investigated(SEED))
    assert f"{records} records, some about chargebacks that are in chargebacks_v3.0." in demo.printed
    assert f"{records} of {len(rows):,}" in demo.printed
    assert f"{turned} rows of training_data_v5.0 ({turned / len(rows):.4%}) and {turned} labels differ now" in demo.printed
    assert turned > records, "chargebacks came late before the investigation, too"


def test_the_challenger_met_every_rule_in_its_backtest_on_both_months(demo: ModelsDemo) -> None:
    compared = backtest_log.newest_backtest(demo.lake, deliveries.MODEL, "v2.4", "v2.3")
    assert compared is not None
    assert (compared.first_month, compared.last_month, compared.passed, compared.failed) == ("2024-10", "2024-11", True, [])
    reading = compared.results["readings"]["as_known"]
    assert list(reading["months"]) == ["2024-10", "2024-11"]
    fraud = reading["total"]["measures"]["average_precision"]
    assert fraud["difference"]["low"] > 0.02
    assert f"{fraud['challenger']['value']:.4f}" in demo.printed
    assert all(Path(f"{compared.report}/report.{form}").stat().st_size for form in ("md", "html", "json"))


def test_the_policy_made_a_version_that_was_compared_and_not_promoted(demo: ModelsDemo) -> None:
    [retrained] = retraining.retrainings_of(demo.lake, deliveries.MODEL)
    assert (retrained.step, retrained.champion) == (RetrainingStep.BACKTESTED, "v2.4")
    assert (retrained.new_labels, retrained.new_set, retrained.new_version) == ("v3.1", "v5.1", "v2.5")
    assert backtest_log.newest_backtest(demo.lake, deliveries.MODEL, "v2.5", "v2.4") is not None
    moves = [(entry.kind.value, entry.to_version) for entry in promotion_log.completed(demo.lake, deliveries.MODEL)]
    assert moves == [("promote", "v2.3"), ("promote", "v2.4"), ("rollback", "v2.3")]
    assert tracking.champion(demo.lake, demo.contract) == "v2.3"


def test_in_the_canary_each_payment_of_november_counts_once_and_a_fifth_by_the_challenger(demo: ModelsDemo) -> None:
    scores = Table(str(demo.home / "lake" / "scores" / "fraud")).read()
    november = {payment.payment_id for payment in payments(SEED) if payment.paid_at.month == 11}
    served = scores.filter(pc.field("served"))
    assert sorted(served["record_key"].to_pylist()) == sorted(november)
    by_version = {version: served.filter(pc.field("model_version") == version).num_rows for version in ("v2.3", "v2.4")}
    assert sum(by_version.values()) == len(november)
    assert by_version["v2.4"] / len(november) == pytest.approx(0.2, abs=0.03)
    assert sorted(scores.filter(pc.field("model_version") == "v2.3")["record_key"].to_pylist()) == sorted(november)


def test_the_set_can_be_made_again_and_a_version_tells_what_it_has_learned_from(demo: ModelsDemo) -> None:
    assert "training_data_v5.0 is the same: 8,648 rows" in demo.run("dataset", "reproduce", "training_data", "v5.0").stdout
    shown = json.loads(demo.run("model", "show", "fraud", "v2.4", "--json").stdout)
    assert "training_data_v5.0" in json.dumps(shown)
    assert "chargebacks" in json.dumps(shown)


def test_the_same_demo_again_prints_the_same_and_changes_nothing(demo: ModelsDemo) -> None:
    before = demo.table_versions()
    assert len(before) > 15
    again = demo.run("demo", "--models")
    assert "0 of them new" in again.stderr
    assert again.stdout == demo.printed
    assert demo.table_versions() == before


def test_the_history_ends_after_the_longest_wait_for_a_label() -> None:
    last = max(payment.paid_at for payment in payments(SEED))
    assert last + deliveries.LATEST < deliveries.HISTORY_ENDS + timedelta(days=1)
