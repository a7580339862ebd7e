"""Keys that have an effect only beside another one are refused without it: all keys of sources and metrics are walked through."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, get_args

import pytest
import yaml
from pydantic import BaseModel

from lakehouse.contracts import MetricContract, SourceContract, effect
from lakehouse.contracts.loader import check_files, load_catalog, load_contract
from lakehouse.contracts.source_rules import INTERVAL_CHECKS, ReprocessPolicyName
from lakehouse.contracts.yaml_file import ContractError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

#: Keys that have an effect in each contract that may have them.
ALWAYS = {
    SourceContract: """dataset kind primary_key synthetic_key model quality.row_rules quality.row_count quality.nulls
        quality.malformed.tolerated quality.malformed.severity
        source.landing source.kafka source.complete_when source.format source.envelope source.null_values
        source.blank_is_null source.start_date source.formats source.joined
        source.system clocks.event clocks.arrival clocks.timezone clocks.naive_times clocks.repeated_hour clocks.start_date
        clocks.max_ahead
        clocks.watermark changes.op changes.retract_words changes.is_correction changes.corrects_event_id changes.corrected_by
        changes.correction_reason changes.corrected_field changes.corrections order dimension lateness.expected lateness.tiers
        lateness.watermark lateness.changes lateness.tuning lateness.beyond lateness.review_within lateness.by freshness
        rolling_backfill alerts.failed_checks alerts.lag alerts.silent_source alerts.stream_lag materialization.strategy
        materialization.partition_by materialization.reprocess_policy materialization.target_path materialization.format
        owner stewards description version info tags""",
    MetricContract: """metric source sources deduplicate_by joins derived_from inputs grain measures rows window late_events live
        reconcile checks.row_count checks.nulls checks.drift checks.change
        dataset_version deprecated_on consumers materiality publication.start_delay
        publication.preliminary_after publication.final_after publication.final_needs.watermark
        publication.final_needs.no_held_file publication.final_needs.no_unfinished_day
        publication.final_needs.no_failed_ingestion publication.final_needs.no_open_review
        publication.final_needs.no_unread_row publication.close_by
        publication.after_close publication.rollups publication.timezone publication.approvals
        alerts.failed_checks alerts.restatements alerts.overdue_after alerts.values alerts.live_state alerts.live_unread_after
        owner description version info tags""",
}
NEEDS = {SourceContract: effect.OF_SOURCE, MetricContract: effect.OF_METRIC}
#: Mappings whose keys are names that the product gives.
OPEN = {"quality.severity", "publication.closes_with"}
SOURCE: dict[str, Any] = {
    "dataset": "readings",
    "primary_key": "id",
    "clocks": {"event": "at"},
    "model": {"fields": [{"name": "id", "type": "string"}]},
}
METRIC: dict[str, Any] = {
    "metric": "total",
    "source": "readings",
    "measures": [{"name": "total", "sql": "count(*)", "type": "long"}],
}


def keys(model: type[BaseModel], under: str = "") -> Iterator[str]:
    """Every key of a contract by its path, down to the sections that have keys of their own."""
    for name, field in model.model_fields.items():
        parts = [part for part in (field.annotation, *get_args(field.annotation)) if isinstance(part, type)]
        section = next((part for part in parts if issubclass(part, BaseModel) and part is field.annotation), None)
        if section is None or f"{under}{name}" in ALWAYS[SourceContract].split():
            yield f"{under}{name}"
        else:
            yield from keys(section, f"{under}{name}.")


@pytest.mark.parametrize("contract", [SourceContract, MetricContract])
def test_each_key_is_known_to_have_an_effect_or_to_need_another(contract: type[BaseModel]) -> None:
    needing = {need.key for need in NEEDS[contract]}
    sections = {key.rpartition(".")[0] for key in needing} & OPEN
    known = {*ALWAYS[contract].split()} | (needing - {key for key in needing if key.rpartition(".")[0] in OPEN}) | sections
    assert set(keys(contract)) == known


def loaded(folder: Path, content: Mapping[str, Any]) -> SourceContract | MetricContract:
    """A contract from a file with this content."""
    path = folder / "contract.yaml"
    path.write_text(yaml.safe_dump(dict(content)))
    contract = load_contract(path)
    assert isinstance(contract, SourceContract | MetricContract)
    return contract


def with_key(content: Mapping[str, Any], key: str, value: object) -> dict[str, Any]:
    """The content of a contract with one more key."""
    first, _, rest = key.partition(".")
    inner = content.get(first, {}) if rest else {}
    return {**content, first: with_key(inner, rest, value) if rest else value}


@pytest.mark.parametrize(
    ("key", "value", "makes_it_work"),
    [
        ("source.delimiter", ";", {"source": {"format": "csv"}}),
        ("source.quote", "'", {"source": {"format": "csv"}}),
        ("changes.insert_words", ["new"], {"changes": {"op": "op"}}),
        ("changes.correct_words", ["fix"], {"changes": {"op": "op"}}),
        ("changes.delete_words", ["gone"], {"changes": {"op": "op"}}),
        ("lateness.alert_above", 0.1, {"lateness": {"watermark": "P2D"}}),
        ("lateness.alert_above", 0.1, {"lateness": {"changes": [{"since": "2024-01-01", "watermark": "P2D"}]}}),
        ("alerts.late_share", {"above": 0.1}, {"lateness": {"watermark": "P2D"}}),
        ("alerts.unfinished_after", "PT1H", {"source": {"complete_when": {"marker": "{arrival_date}_SUCCESS"}}}),
        ("alerts.watermark_stalled", {"days": 7}, {"clocks": {"watermark": {"strategy": "bounded", "max_lateness": "PT1H"}}}),
        ("materialization.max_shrink", 0.1, {"materialization": {"reprocess_policy": "overwrite_partition_safe"}}),
        ("materialization.max_shrink", 0.1, {"materialization": {"reprocess_policy": "overwrite_all"}}),
        ("quality.severity.intervals_disjoint", "warn", {"kind": "dimension"}),
        ("quality.severity.one_correction", "warn", {"changes": {"op": "op", "corrects_event_id": "corrects"}}),
        ("quality.severity.whole_correction", "warn", {"changes": {"op": "op", "corrected_field": "field"}}),
    ],
)
def test_a_key_of_a_source_without_effect(tmp_path: Path, key: str, value: object, makes_it_work: dict[str, Any]) -> None:
    refused = with_key({**SOURCE, "source": {"format": "json"}}, key, value)
    with pytest.raises(ContractError, match=rf"contract.yaml:\d+: {key}: .*leave the key out"):
        loaded(tmp_path, refused)
    accepted = with_key(SOURCE, key, value)
    for section, more in makes_it_work.items():
        accepted[section] = {**accepted.get(section, {}), **more} if isinstance(more, dict) else more
    loaded(tmp_path, accepted)


def test_partial_corrections_leave_nothing_to_check_about_whole_ones(tmp_path: Path) -> None:
    partial = {"op": "op", "corrected_field": "field", "corrections": "partial"}
    with pytest.raises(ContractError, match="whole_correction: is about corrections that replace the whole record"):
        loaded(tmp_path, with_key({**SOURCE, "changes": partial}, "quality.severity.whole_correction", "warn"))


@pytest.mark.parametrize(
    ("key", "value", "rollups"),
    [
        ("publication.fiscal_year_starts", 4, ["fiscal_year"]),
        ("publication.final_needs.final_days", False, ["week"]),
        ("publication.closes_with.month", "the books", ["month"]),
    ],
)
def test_a_key_of_a_metric_without_effect(tmp_path: Path, key: str, value: object, rollups: list[str]) -> None:
    with pytest.raises(ContractError, match=rf"contract.yaml:\d+: {key}: .*leave the key out"):
        loaded(tmp_path, with_key(METRIC, key, value))
    loaded(tmp_path, with_key(with_key(METRIC, key, value), "publication.rollups", rollups))


@pytest.mark.parametrize("kind", ["event", "dimension"])
@pytest.mark.parametrize("policy", get_args(ReprocessPolicyName))
def test_a_key_that_is_accepted_under_a_policy_and_kind_has_its_effect(tmp_path: Path, policy: str, kind: str) -> None:
    plain = with_key({**SOURCE, "kind": kind}, "materialization.reprocess_policy", policy)
    accepted = set()
    for need in effect.OF_SOURCE:
        default: Any = SourceContract.model_validate(SOURCE)
        for name in need.key.split("."):
            default = "warn" if isinstance(default, dict) else getattr(default, name)
        value = default.model_dump(mode="json") if isinstance(default, BaseModel) else default
        value = f"{value}" if isinstance(value, timedelta) else value
        with suppress(ContractError):
            loaded(tmp_path, with_key(plain, need.key, value))
            accepted.add(need.key)
    assert {key for key in accepted if key.startswith("quality.")} == (
        {f"quality.severity.{name}" for name in INTERVAL_CHECKS} if (kind, policy) == ("dimension", "merge") else set()
    )
    assert ("materialization.max_shrink" in accepted) == (kind == "event" and policy.startswith("overwrite"))
    assert not accepted & {"alerts.unfinished_after", "alerts.watermark_stalled", "lateness.alert_above", "changes.delete_words"}


def test_a_tier_that_nobody_has_is_named_with_the_known_ones(tmp_path: Path) -> None:
    source = (
        "dataset: readings\nprimary_key: id\nclocks: {event: at%s}\nlateness: {tiers: [{within: PT6H, serves: daily close}]}\n"
    )
    source += "model: {fields: [{name: id, type: string}]}\n"
    watermark = ", watermark: {strategy: bounded, max_lateness: PT1H}"
    metric = "metric: total\nsource: readings\nmeasures: [{name: total, sql: count(*), type: long}]\n"
    (tmp_path / "readings.yaml").write_text(source % watermark)
    (tmp_path / "total.yaml").write_text(f"{metric}publication:\n  closes_with:\n    day: dayly close\n")
    misspelt = r"total.yaml:6: .*no tier of the lateness of readings serves 'dayly close' \(did you mean 'daily close'\?\); "
    with pytest.raises(ContractError, match=f"{misspelt}there are daily close"):
        load_catalog(tmp_path, bundled=False)
    (refused,) = check_files([tmp_path / "total.yaml"]).mistakes
    assert re.search(misspelt, refused), "contract check refuses what loading refuses"
    (tmp_path / "total.yaml").write_text(f"{metric}publication: {{closes_with: {{day: daily close}}}}\n")
    load_catalog(tmp_path, bundled=False)
    assert not check_files([tmp_path / "total.yaml"]).mistakes
    (tmp_path / "readings.yaml").write_text(source % "")
    with pytest.raises(ContractError, match="readings has no watermark"):
        load_catalog(tmp_path, bundled=False)


def test_a_source_that_no_period_waits_for_needs_no_tier(tmp_path: Path) -> None:
    clocks = {"event": "at", "watermark": {"strategy": "bounded", "max_lateness": "PT1H"}}
    tills = {**SOURCE, "clocks": clocks, "lateness": {"tiers": [{"within": "PT6H", "serves": "daily close"}]}}
    metric = with_key({**METRIC}, "publication.closes_with.day", "daily close")
    del metric["source"]
    files = {"readings": tills, "others": {**SOURCE, "dataset": "others"}}
    for name, content in files.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content))
    for required in (True, False):
        sources = [{"source": "readings"}, {"source": "others", "required": required}]
        (tmp_path / "total.yaml").write_text(yaml.safe_dump({**metric, "sources": sources}))
        mistakes = check_files([tmp_path / "total.yaml"]).mistakes
        assert bool(mistakes) == required, mistakes


@pytest.mark.parametrize(
    ("key", "value", "mistake"),
    [
        ("lateness.by", {"column": "change_op", "values": {"corect": {"watermark": "P3D"}}}, "by.values.corect: no operation"),
        (
            "clocks.watermark",
            {"strategy": "punctuated", "marker": {"column": "change_op", "value": "delet"}},
            "watermark.marker.value: no operation is called 'delet' (did you mean 'delete'?); there are insert, correct, delete",
        ),
        (
            "clocks.watermark",
            {"strategy": "bounded", "max_lateness": "PT1H", "tuning": {"event_types": ["insert", "inserts"]}},
            "tuning.event_types.1: no operation is called 'inserts'",
        ),
        (
            "lateness.tiers",
            [{"within": "PT1H", "serves": "daily"}, {"within": "P1D", "serves": "daily"}],
            "lateness.tiers.1.serves: two tiers serve 'daily'",
        ),
        ("quality.severity", {"tier_daily": "error"}, "no tier has the check 'tier_daily'; no tier has a tolerated share"),
    ],
)
def test_a_name_in_a_source_that_nothing_has(tmp_path: Path, key: str, value: object, mistake: str) -> None:
    with pytest.raises(ContractError, match=r"contract.yaml:\d+: ") as refused:
        loaded(tmp_path, with_key(SOURCE, key, value))
    assert mistake in str(refused.value)


def test_an_operation_of_a_dimension_and_an_event_type_of_a_field_are_known(tmp_path: Path) -> None:
    by = {"column": "change_op", "values": {"retract": {"watermark": "P3D"}}}
    loaded(tmp_path, with_key({**SOURCE, "kind": "dimension"}, "lateness.by", by))
    loaded(tmp_path, with_key(SOURCE, "lateness.by", {"column": "id", "values": {"refund": {"watermark": "P3D"}}}))


def test_a_close_by_a_watermark_that_it_takes_no_notice_of(tmp_path: Path) -> None:
    closes = with_key(METRIC, "publication.closes_with", {"day": "daily close"})
    with pytest.raises(ContractError, match=r"publication.closes_with: is about the watermark, .*leave one of the two out"):
        loaded(tmp_path, with_key(closes, "publication.final_needs", {"watermark": False}))
    loaded(tmp_path, closes)


def test_a_kind_of_period_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=r"yaml:\d+: publication.closes_with.dai: Input should be 'day', 'week', 'month'"):
        loaded(tmp_path, with_key(METRIC, "publication.closes_with", {"dai": "daily close"}))


@pytest.mark.parametrize(
    ("more", "is_refused"),
    [
        ({}, False),
        ({"window": {"size": "PT1H"}}, False),
        ({"window": 3}, True),
        ({"measures": [{"name": "mean", "sql": "avg(1)", "type": "double"}]}, True),
        ({"joins": [{"dimension": "customers", "on": "id", "columns": ["tier"]}]}, True),
        ({"source": None, "sources": [{"source": "readings"}, {"source": "others"}]}, True),
    ],
)
def test_changed_rows_are_added_to_numbers_only_where_the_numbers_add_up(
    tmp_path: Path, more: dict[str, Any], is_refused: bool
) -> None:
    content = {name: value for name, value in {**METRIC, **more}.items() if value is not None}
    measures = [{"additive": "avg" not in each["sql"], **each} for each in content["measures"]]
    content |= {"measures": measures, "publication": {"patch_up_to": 5}}
    if not is_refused:
        loaded(tmp_path, content)
        return
    with pytest.raises(ContractError, match=r"publication.patch_up_to: needs measures that are additive .* leave the key out"):
        loaded(tmp_path, content)
    loaded(tmp_path, content | {"publication": {"patch_up_to": 0}})
