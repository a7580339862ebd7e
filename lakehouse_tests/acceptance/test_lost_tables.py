"""Any table loses its newest commits, is emptied, cut off, gone or an older copy: the next commands make up for it, or say so.

Where a command names ``lakehouse admin repair``, the repair and the same command again end as without the damage; several changes
that came in between are one revision.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse_tests.support import damaged_lake
from lakehouse_tests.support.damaged_lake import HOW, NEXT, DamagedLake, damage
from lakehouse_tests.support.laws import law

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.merge, pytest.mark.proof]
SEQUENCES = [("run",), ("tier", "run"), ("show", "run"), ("replay", "run"), ("rebuild", "tier", "run")]


@cache
def _template(remote: tuple[tuple[str, str], ...]) -> tuple[TemporaryDirectory[str], DamagedLake]:
    folder = TemporaryDirectory()
    return folder, damaged_lake.build(Path(folder.name, "shop"), dict(remote))


@cache
def _expected(remote: tuple[tuple[str, str], ...], steps: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The numbers and the rows of silver where nothing was lost."""
    with TemporaryDirectory() as folder:
        sample = _template(remote)[1].copied(Path(folder, "whole"))
        for step in steps:
            assert sample.give(NEXT[step]).code == 0
        return sample.numbers(), sample.silver()


@law(25)
@example(place="bronze/customers", cuts=["delete 1"], steps=("tier", "run"))
@example(place="gold/revenue", cuts=["gone"], steps=("run",))  # what readers saw of it does not follow from silver
@example(place="gold/revenue", cuts=["copy 0"], steps=("run",))  # a final number, a revert, and the names of revisions
@example(place="silver/sales_quarantine", cuts=["gone"], steps=("run",))  # a day with an open row must not become final
@example(place="silver/sales", cuts=["gone"], steps=("tier", "run"))  # its numbers follow a dimension, too
@example(place="gold/by_tier", cuts=["gone"], steps=("rebuild", "tier", "run"))  # two changes while the table is named
@example(place="silver/clicks_newest", cuts=["delete 1"], steps=("run",))  # beside the table whose inputs are recorded
@given(
    place=st.integers(0, 99),
    cuts=st.lists(st.sampled_from(HOW), min_size=1, max_size=3),
    steps=st.sampled_from(SEQUENCES),
)
def test_whatever_any_table_loses_the_numbers_end_the_same_or_a_command_says_so(
    spark: SparkSession, spark_remote: dict[str, str], place: int | str, cuts: list[str], steps: tuple[str, ...]
) -> None:
    assert spark
    remote = tuple(spark_remote.items())
    with TemporaryDirectory() as folder:
        sample = _template(remote)[1].copied(Path(folder, "damaged"))
        before = sample.numbers()
        table = place if isinstance(place, str) else sample.tables()[place % len(sample.tables())]
        steps = (*steps, "clicks") if "click" in table else steps  # a source of its own
        numbers, silver = _expected(remote, steps)
        for how in cuts:
            damage(sample, table, how)
        printed = [sample.give(NEXT[step]) for step in steps]
        text = "\n".join(one.text for one in printed)
        assert "Traceback" not in text
        if table in text and any(one.code for one in printed):
            for key, value in sample.readable_numbers().items():
                expected = [whole and whole[:-1] for whole in (before.get(key), numbers.get(key))]
                assert value[:-1] in expected, f"{table} {cuts}: {key} is wrong\n{text}"
            if "'lakehouse admin repair'" not in text:
                return
            last = NEXT[steps[-1]]
            text += "".join(sample.give(step).text for step in (replace(last, command=("repair",), lines=()), last))
            numbers = _with_fewer_revisions(numbers, before, sample.numbers())
        assert (sample.numbers(), sample.silver()) == (numbers, silver), f"{table} {cuts}\n{text}"


def _with_fewer_revisions(whole: dict[str, Any], before: dict[str, Any], seen: dict[str, Any]) -> dict[str, Any]:
    """``whole`` with the revisions of ``seen`` where these are fewer, though no revision of ``before`` may be missing.

    Of several changes that came while a table was named, the run after the repair publishes one revision. Value and state are
    always those of the lake where nothing was lost.
    """
    expected = {}
    for key, (*content, name) in whole.items():
        least = _revision(before[key][-1]) if key in before else 0
        fewer = key in seen and least <= _revision(seen[key][-1]) <= _revision(name)
        expected[key] = [*content, seen[key][-1] if fewer else name]
    return expected


def _revision(name: str) -> int:
    """The number in ``revenue_v2024-11-08.r3``."""
    return int(name.rpartition(".r")[2])
