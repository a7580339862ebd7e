"""Law: the releases that a correction concerns are those that a scan over every row of every set, and every model, finds."""

from __future__ import annotations

import json
import shutil
import tempfile
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.impact.result import ConcernedRecords, Impact
from lakehouse.models import affected
from lakehouse.settings import Settings
from lakehouse.training_sets import addresses
from lakehouse_tests.support.hypothesis_settings import derandomized
from lakehouse_tests.support.released_history import KEYS, HistorySet, ReleasedHistory, histories, source

if TYPE_CHECKING:
    from pathlib import Path

DAYS = [date(2024, 1, 31) + timedelta(days=number) for number in range(6)]


@derandomized(25)
@given(history=histories(), subject=st.data())
def test_impact_agrees_with_a_scan_over_all_sets_and_models(history: ReleasedHistory, subject: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(root=folder, bundled_contracts=False, now=datetime(2024, 6, 1, tzinfo=timezone.utc))
        history.write(settings)
        for name in sorted(KEYS):
            keys = subject.draw(st.sets(st.sampled_from([*KEYS[name], KEYS[name][0].replace("0", "9")]), min_size=1))
            new = subject.draw(st.sets(st.sampled_from(KEYS["payments"]))) if name == "chargebacks" else set()
            records = ConcernedRecords(pa.array(sorted(keys)), values={"payment_id": pa.array(sorted(new), pa.string())})
            by_keys = Impact(name, "", applied=True, days=[], records=records)
            assert affected.of_impact(settings, source(name), by_keys).as_json() == history.search(name, keys, new)

            first = subject.draw(st.integers(0, len(DAYS) - 1))
            days = DAYS[first : first + subject.draw(st.integers(1, 3))]
            by_days = Impact(name, "", applied=False, days=days)
            assert affected.of_impact(settings, source(name), by_days).as_json() == history.search(name, days=days)

            file = subject.draw(st.sampled_from([f"{name}{number}" for number in range(3)]))
            brought = {record.key for record in history.records if record.file == file}
            by_file = Impact(name, "", applied=True, days=[], records=ConcernedRecords(ingestions=frozenset({file})))
            assert affected.of_impact(settings, source(name), by_file).as_json() == history.search(name, brought)


def test_a_set_whose_rows_are_gone_is_listed_with_its_models(tmp_path: Path) -> None:
    history = ReleasedHistory([], {}, [HistorySet("large", "v1.0", False, (("p0", 1, "a"),))], {("fraud", "v1.0"): "large_v1.0"})
    settings = Settings(root=str(tmp_path), bundled_contracts=False)
    history.write(settings)
    shutil.rmtree(addresses.training_set(settings, "large", "v1.0"))
    impact = Impact("payments", "", applied=True, days=[], records=ConcernedRecords(pa.array(["p5"])))
    found_releases = affected.of_impact(settings, source("payments"), impact).as_json()
    assert found_releases["training_sets"] == [{"name": "large", "version": "v1.0", "rows": None, "total": 1, "share": None}]
    assert [model["version"] for model in found_releases["models"]] == ["v1.0"]
    assert json.dumps(found_releases)
