"""Law: the releases that a correction concerns are those that a scan over every row of every set, and every model, finds."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.contracts import Catalog
from lakehouse.impact import analysis
from lakehouse.impact.analysis import ConcernedRecords, Impact, UnknownSubjectError
from lakehouse.lake import Lake
from lakehouse.ledger import decisions
from lakehouse.ledger.decisions import Decision
from lakehouse.ledger.row_states import StewardVerdict
from lakehouse.models import lineage
from lakehouse.settings import Settings
from lakehouse.training_sets.affected import columns_searched
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.released_history import KEYS, HistoryRecord, HistorySet, ReleasedHistory, histories, source

if TYPE_CHECKING:
    from pathlib import Path

DAYS = [date(2024, 1, 31) + timedelta(days=number) for number in range(6)]


@dataclass(frozen=True)
class Subjects:
    """What is asked about a source: keys, with payments that no record names yet; days; a file."""

    keys: set[str]
    new: set[str]
    days: list[date]
    file: str


@st.composite
def subjects(draw: st.DrawFn) -> dict[str, Subjects]:
    """Of each source; a key of it may be unknown."""
    questions = {}
    for name in sorted(KEYS):
        keys = draw(st.sets(st.sampled_from([*KEYS[name], KEYS[name][0].replace("0", "9")]), min_size=1))
        new = draw(st.sets(st.sampled_from(KEYS["payments"]))) if name == "chargebacks" else set()
        first = draw(st.integers(0, len(DAYS) - 1))
        days = DAYS[first : first + draw(st.integers(1, 3))]
        questions[name] = Subjects(keys, new, days, draw(st.sampled_from([f"{name}{number}" for number in range(3)])))
    return questions


@law(100, in_each_run=5)
@given(history=histories(), questions=subjects())
def test_impact_agrees_with_a_scan_over_all_sets_and_models(history: ReleasedHistory, questions: dict[str, Subjects]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(Settings(root=folder, bundled_contracts=False, now=datetime(2024, 6, 1, tzinfo=timezone.utc)))
        history.write(lake)
        for name, subject in questions.items():
            values = {"payment_id": pa.array(sorted(subject.new), pa.string())}
            records = ConcernedRecords(pa.array(sorted(subject.keys)), values=values)
            by_keys = Impact(name, "", applied=True, days=[], records=records)
            assert lineage.of_impact(lake, source(name), by_keys).as_json() == history.search(name, subject.keys, subject.new)

            by_days = Impact(name, "", applied=False, days=subject.days)
            assert lineage.of_impact(lake, source(name), by_days).as_json() == history.search(name, days=subject.days)

            brought = {record.key for record in history.records if record.file == subject.file}
            in_file = ConcernedRecords(ingestions=frozenset({subject.file}))
            by_file = Impact(name, "", applied=True, days=[], records=in_file)
            assert lineage.of_impact(lake, source(name), by_file).as_json() == history.search(name, brought)


def test_a_new_chargeback_in_a_file_and_a_decision_reach_the_model(tmp_path: Path) -> None:
    rows = (("p0", 1, "a"), ("p1", 30, "b"))
    history = ReleasedHistory(
        [HistoryRecord("chargebacks", "c1", 60, 61, "cb", "p1")],
        {"v1.0": (frozenset({"cb"}), None)},
        [HistorySet("large", "v1.0", False, rows)],
        {("fraud", "v1.0"): "large_v1.0"},
    )
    lake = Lake(Settings(root=f"{tmp_path / 'lake'}", bundled_contracts=False, now=datetime(2024, 6, 1, tzinfo=timezone.utc)))
    history.write(lake)
    chargebacks = source("chargebacks")
    catalog = Catalog({"chargebacks": chargebacks})
    file = tmp_path / "new.csv"
    file.write_text("chargeback_id,payment_id,at,arrived_at\nc9,p0,2024-02-20T00:00:00Z,2024-02-21T00:00:00Z\n")
    columns = columns_searched(lake, chargebacks)
    assert columns == ["payment_id"]
    of_file = analysis.of_file(lake, catalog, "chargebacks", f"{file}", columns)
    assert "records" not in of_file.as_json()
    released = lineage.of_impact(lake, chargebacks, of_file).as_json()
    assert (released["labels"], [entry["rows"] for entry in released["training_sets"]]) == ([], [1])
    assert [entry["version"] for entry in released["models"]] == ["v1.0"]

    decided = Decision("cb", 0, "c1", StewardVerdict.REJECT, "anna", "no receipt", lake.now(), touched_days=[DAYS[3]])
    decision_id = decisions.record(lake, "chargebacks", [decided])
    of_decision = analysis.of_decision(lake, catalog, "chargebacks", decision_id)
    assert (of_decision.days, of_decision.waiting) == ([DAYS[3]], [DAYS[3]])
    released = lineage.of_impact(lake, chargebacks, of_decision).as_json()
    assert (released["labels"], [entry["rows"] for entry in released["training_sets"]]) == (["chargebacks_v1.0"], [1])
    with pytest.raises(UnknownSubjectError, match=f"its newest are {decision_id}"):
        analysis.of_decision(lake, catalog, "chargebacks", "decision:0")


def test_a_set_whose_rows_are_gone_is_listed_with_its_models(tmp_path: Path) -> None:
    history = ReleasedHistory([], {}, [HistorySet("large", "v1.0", False, (("p0", 1, "a"),))], {("fraud", "v1.0"): "large_v1.0"})
    lake = Lake(Settings(root=str(tmp_path), bundled_contracts=False))
    history.write(lake)
    shutil.rmtree(locations.training_set(lake, "large", "v1.0").address)
    impact = Impact("payments", "", applied=True, days=[], records=ConcernedRecords(pa.array(["p5"])))
    found_releases = lineage.of_impact(lake, source("payments"), impact).as_json()
    assert found_releases["training_sets"] == [{"name": "large", "version": "v1.0", "rows": None, "total": 1, "share": None}]
    assert [model["version"] for model in found_releases["models"]] == ["v1.0"]
    assert json.dumps(found_releases)
