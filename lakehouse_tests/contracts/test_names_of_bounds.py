"""The four bounds for late data have four names; their earlier names stay valid and change no version of a contract."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from lakehouse.cli.program import app
from lakehouse.contracts.loader import load_contract
from lakehouse.contracts.source_rules import Lateness
from lakehouse.contracts.yaml_file import ContractError
from lakehouse.delta import provenance
from lakehouse.late_events.routes import MetricLateEventsModel
from lakehouse.lateness import measurement
from lakehouse.lateness.measurement import EventTypeLateness, LatenessMeasurement
from lakehouse.ledger.row_states import QuarantineReason
from lakehouse.reports import formatting
from lakehouse.serving.quality_models import CaughtModel
from lakehouse.text import EARLIER_NAMES, with_earlier_names
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.contracts import MetricContract
    from lakehouse.contracts.source import SourceContract

SOURCE = """
dataset: events
primary_key: [id]
source: {landing: "{arrival_date}.csv", start_date: 2024-01-01}
clocks: {event: at, arrival: seen, watermark: {strategy: bounded, max_lateness: PT1H}}
model: {fields: [{name: id, type: string}]}
lateness:
"""
METRIC = """
metric: total
source: events
measures: [{name: events, sql: count(*), type: bigint, additive: true}]
window: {size: PT1H}
"""
BY = "by: {column: change_op, values: {correct: {NAME: P30D, changes: [{since: 2024-02-01, NAME: P20D}]}}}"
LATENESS = f"  NAME: P7D\n  beyond: drop\n  PROPOSAL: {{catch: 0.9}}\n  {BY}\n"


def loaded(folder: Path, text: str) -> SourceContract | MetricContract:
    file = folder / "contract.yaml"
    file.write_text(text, "utf-8")
    return load_contract(file)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (SOURCE + LATENESS, {"NAME": ("cutoff", "watermark"), "PROPOSAL": ("proposal", "tuning")}),
        (METRIC + "late_events: {NAME: PT5M}\n", {"NAME": ("grace", "allowed_lateness")}),
        (METRIC + "live: {NAME: PT10M}\n", {"NAME": ("open_for", "watermark")}),
    ],
)
def test_a_bound_under_its_earlier_name_is_the_same_contract(tmp_path: Path, text: str, names: dict[str, Any]) -> None:
    now, before = text, text
    for word, (name, earlier) in names.items():
        now, before = now.replace(word, name), before.replace(word, earlier)
    assert now != before
    new, old = loaded(tmp_path, now), loaded(tmp_path, before)
    assert new == old
    assert new.model_dump_json() == old.model_dump_json()
    assert provenance.of_contract(new) == provenance.of_contract(old)


def test_a_bound_under_both_names_is_a_mistake_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=r"9: lateness\.watermark: is the earlier name of 'cutoff'; leave it out"):
        loaded(tmp_path, f"{SOURCE}  cutoff: P7D\n  watermark: P8D\n")


def test_an_event_type_has_its_own_terms_for_the_cutoff_that_is_proposed() -> None:
    """Half of the refunds come within ten days, and for refunds that is enough."""
    refunds = EventTypeLateness("refund", [day * 86_400 for day in range(1, 21)], 0)
    sales = EventTypeLateness("sale", [3_600] * 20, 0)
    by = {"column": "change_op", "values": {"refund": {"proposal": {"catch": 0.5, "rows": 10}}}}
    source = contract(lateness={"proposal": {"catch": 0.99, "rows": 10}, "by": by})
    measured = LatenessMeasurement("events", *([source.first_event_day] * 2), types=[refunds, sales])
    proposed = measurement.proposals(source, measured)
    assert {kind: one.watermark for kind, one in proposed.items()} == {
        None: timedelta(hours=1),
        "refund": timedelta(days=10),
    }
    assert Lateness().of_type("refund").tuning == Lateness().tuning


def test_terms_for_a_proposal_change_no_version_of_a_contract() -> None:
    by = {"column": "change_op", "values": {"correct": {"cutoff": "P30D"}}}
    with_terms = {"column": "change_op", "values": {"correct": {"cutoff": "P30D", "proposal": {"catch": 0.5}}}}
    plain, tuned = (contract(lateness={"by": each}) for each in (by, with_terms))
    assert provenance.of_contract(plain) == provenance.of_contract(tuned)


def test_one_family_of_commands_is_about_lateness() -> None:
    runner = CliRunner()
    top, family = (runner.invoke(app, words, env={"COLUMNS": "200"}).stdout for words in (["--help"], ["lateness", "--help"]))
    assert [word for line in top.splitlines() for word in line.split()[1:2] if word.startswith("late")] == ["lateness"]
    commands = [line.split()[1] for line in family.splitlines() if len(line.split()) > 1]
    assert {"report", "watermark", "propose", "apply", "tuning", "rows", "admit", "withdraw"} <= set(commands)
    assert runner.invoke(app, ["late", "list", "--help"]).exit_code == 0


def test_a_renamed_field_also_stands_under_its_earlier_name() -> None:
    assert with_earlier_names({"rows": 1, "beyond_cutoff": 2}) == {"rows": 1, "beyond_cutoff": 2, "beyond_watermark": 2}
    assert QuarantineReason("beyond_cutoff") is QuarantineReason("beyond_watermark") is QuarantineReason.BEYOND_WATERMARK
    with pytest.raises(ValueError, match="beyond_all"):
        QuarantineReason("beyond_all")


def test_the_responses_have_both_names_and_the_document_calls_the_earlier_one_deprecated() -> None:
    for model, name, earlier in (
        (CaughtModel, "cutoff_seconds", "watermark_seconds"),
        (MetricLateEventsModel, "grace_seconds", "allowed_lateness_seconds"),
    ):
        properties = model.model_json_schema()["properties"]
        assert EARLIER_NAMES[name] == earlier
        assert (properties[earlier]["deprecated"], properties[name].get("deprecated")) == (True, None)


def test_people_read_of_the_cutoff_on_every_page_and_in_every_list() -> None:
    words = {reason.value: reason.words for reason in QuarantineReason}
    assert words["beyond_watermark"] == formatting.reason("beyond_watermark") == "beyond the cutoff"
    assert (words["rule_failed"], formatting.reason("late_data")) == ("rule failed", "late data")
