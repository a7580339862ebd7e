"""What the process of ``lakehouse serve`` does beside the application."""

from __future__ import annotations

import gc
import itertools
from typing import TYPE_CHECKING

from lakehouse.contracts import Catalog
from lakehouse.serving import commands
from lakehouse_tests.support.empty_lake import lake_in

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_what_a_long_full_collection_has_kept_is_left_out_of_the_next_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[str] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append("frozen"))
    for seconds, generation, is_left_out in ((0.2, 2, True), (0.001, 2, False), (0.2, 1, False)):
        frozen.clear()
        clock = itertools.accumulate([10.0, seconds])
        monkeypatch.setattr(commands.time, "perf_counter", lambda clock=clock: next(clock))
        pauses = commands._ShortPauses()
        for phase in ("start", "stop"):
            pauses(phase, {"generation": generation})
        assert bool(frozen) == is_left_out


def test_without_an_instance_of_dagster_no_sensor_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, catalog = lake_in(tmp_path), Catalog({}, {})
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    assert commands._sensor_ages(lake, catalog) is None
    (tmp_path / "dagster_home").mkdir()
    (tmp_path / "dagster_home" / "dagster.yaml").touch()
    assert commands._sensor_ages(lake, catalog) is not None
