"""A watermark written into contracts of every shape: it applies from its day on, and nothing else in the file is touched."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from lakehouse.contracts.source import SourceContract
from lakehouse.lateness.cutoff import PatchError, duration, file_of, replacing, with_watermark

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """# a shop
dataset: events   # its name
primary_key: [id]
model: {fields: [{name: id, type: string}, {name: kind, type: string}]}
"""
CLOCKS = "clocks: {event: at, arrival: seen}\n"
SINCE = date(2024, 3, 1)
SHAPES = {
    "no lateness": HEAD + CLOCKS,
    "no line end": (HEAD + CLOCKS).rstrip("\n"),
    "block": HEAD + "lateness:\n  expected: P1D  # a day\n  watermark: P7D\n\n# the clocks\n" + CLOCKS,
    "block at the end": HEAD + CLOCKS + "lateness:\n    watermark: P7D",
    "flow": HEAD + "lateness: {watermark: P7D}\n" + CLOCKS,
    "empty flow": HEAD + "lateness: {}\n" + CLOCKS,
    "nested last": HEAD
    + "lateness:\n  watermark: P7D\n  tiers:\n    - {within: PT1H, serves: x}\n    - within: P1D\n      serves: y\n"
    + CLOCKS,
    "changes": HEAD + "lateness:\n  changes:\n    - {since: 2024-01-01, watermark: P5D}\n  watermark: P7D\n" + CLOCKS,
    "dashes at the key": HEAD + "lateness:\n  changes:\n  - since: 2024-01-01\n    watermark: P5D\n  watermark: P7D\n" + CLOCKS,
    "flow changes": HEAD + "lateness:\n  changes: [{since: 2024-01-01, watermark: P5D}]\n" + CLOCKS,
    "empty flow changes": HEAD + "lateness:\n  changes: []\n" + CLOCKS,
}


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
def test_every_shape(text: str) -> None:
    patched = with_watermark(text, timedelta(hours=36), SINCE)
    contract = SourceContract.model_validate(yaml.safe_load(patched))
    before = SourceContract.model_validate(yaml.safe_load(text))
    assert contract.lateness.on(SINCE) == timedelta(hours=36)
    for earlier in (date(2023, 12, 31), SINCE - timedelta(days=1)):
        assert contract.lateness.on(earlier) == before.lateness.on(earlier), "rows that came before keep their judgement"
    kept = [line for line in text.splitlines() if line and line not in patched.splitlines()]
    assert len(kept) <= 1, "one line at most is another"
    again = with_watermark(patched, timedelta(days=4), SINCE + timedelta(days=1))
    assert SourceContract.model_validate(yaml.safe_load(again)).lateness.on(SINCE) == timedelta(hours=36)


TYPED = f"""{HEAD}{CLOCKS}lateness:
  watermark: P7D
  by:
    column: kind
    values:
      refund: {{watermark: P30D}}
      gift:
        expected: P2D
"""


@pytest.mark.parametrize("kind", ["refund", "gift"])
def test_one_event_type(kind: str) -> None:
    bounds = SourceContract.model_validate(yaml.safe_load(with_watermark(TYPED, timedelta(days=9), SINCE, kind))).lateness
    asked = {one: bounds.as_of(one, SINCE).watermark for one in ("refund", "gift", "sale", None)}
    usual = {"refund": timedelta(days=30), "gift": timedelta(days=7), "sale": timedelta(days=7), None: timedelta(days=7)}
    assert asked == usual | {kind: timedelta(days=9)}
    assert {one: bounds.as_of(one, SINCE - timedelta(days=1)).watermark for one in usual} == usual


def test_a_type_without_a_watermark_of_its_own_follows_the_source() -> None:
    bounds = SourceContract.model_validate(yaml.safe_load(with_watermark(TYPED, timedelta(days=3), SINCE))).lateness
    assert bounds.as_of("gift", SINCE).watermark == timedelta(days=3)
    assert bounds.as_of("refund", SINCE).watermark == timedelta(days=30)


def test_contracts_that_cannot_be_edited_are_reported() -> None:
    with pytest.raises(PatchError, match="each on a day of its own"):
        with_watermark(SHAPES["changes"], timedelta(days=1), date(2024, 1, 1))
    with pytest.raises(PatchError, match=r"lateness\.by\.values\.sale is no mapping"):
        with_watermark(TYPED, timedelta(days=1), SINCE, "sale")
    block_of_text = "  tiers:\n    - within: P1D\n      serves: |\n        dashboards\ninfo:\n  team: sales\n"
    with pytest.raises(PatchError, match=r"layout of this file is not supported; add by hand to lateness\.changes"):
        with_watermark(f"{HEAD}{CLOCKS}lateness:\n  watermark: P7D\n{block_of_text}", timedelta(days=1), SINCE)
    anchored = HEAD + CLOCKS + "lateness: &late\n  watermark: P7D\ninfo: {copy: *late}\n"
    with pytest.raises(PatchError, match=r"cannot be added to lateness\.changes|add by hand"):
        with_watermark(anchored, timedelta(days=1), SINCE)


@given(seconds=st.integers(0, 10**8))
def test_spans_are_read_as_they_are_written(seconds: int) -> None:
    span = timedelta(seconds=seconds)
    assert TypeAdapter(timedelta).validate_python(duration(span)) == span


def test_the_file_is_found_and_replaced_whole(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("dataset: other\nprimary_key: [id]\n")
    (tmp_path / "b.yml").write_text(HEAD + CLOCKS)
    assert file_of(tmp_path, "events") == tmp_path / "b.yml"
    assert file_of(tmp_path, "sales") is None
    assert file_of(tmp_path / "none", "events") is None
    with pytest.raises(KeyError), replacing(tmp_path / "b.yml", "y"):
        raise KeyError
    assert (tmp_path / "b.yml").read_text() == HEAD + CLOCKS
    with replacing(tmp_path / "b.yml", "x"):
        assert (tmp_path / "b.yml").read_text() == HEAD + CLOCKS
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.yaml", "b.yml"]
    assert (tmp_path / "b.yml").read_text() == "x"
