"""What the process of ``lakehouse serve`` does beside the application."""

from __future__ import annotations

import gc
import itertools
from typing import TYPE_CHECKING

from lakehouse.serving import commands

if TYPE_CHECKING:
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
