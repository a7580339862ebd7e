"""The section ``clocks.watermark.tuning`` of a contract: contradictions are refused with file, line and field."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakehouse.contracts import ContractError, load_contract
from lakehouse.contracts.source import SourceContract
from lakehouse.contracts.source_rules import BoundedWatermark

if TYPE_CHECKING:
    from pathlib import Path

CONTRACT = """\
dataset: shop
primary_key: id
model:
  fields:
    - {name: id, type: int}
clocks:
  event: at
  watermark:
    strategy: bounded
    max_lateness: PT6H
    tuning:
"""


def load(folder: Path, *terms: str) -> SourceContract:
    path = folder / "shop.yaml"
    path.write_text(CONTRACT + "".join(f"      {term}\n" for term in terms))
    contract = load_contract(path)
    assert isinstance(contract, SourceContract)
    return contract


def test_the_section_is_read_and_has_defaults(tmp_path: Path) -> None:
    watermark = load(
        tmp_path, "auto: true", "at_least: PT1H", "at_most: P2D", "catch: 0.95", "event_types: [insert]"
    ).clocks.watermark
    assert isinstance(watermark, BoundedWatermark)
    terms = watermark.tuning
    assert (terms.auto, terms.catch, terms.at_least, terms.at_most) == (True, 0.95, timedelta(hours=1), timedelta(days=2))
    plain = BoundedWatermark(strategy="bounded", max_lateness=timedelta(days=60)).tuning
    assert (plain.auto, plain.catch, plain.band, plain.days, plain.rows) == (False, 0.99, 0.25, 28, 500)


@pytest.mark.parametrize(
    ("terms", "mistake"),
    [
        (["at_least: P2D", "at_most: P1D"], "shop.yaml:12: clocks.watermark.tuning.at_least: is greater than at_most"),
        (["auto: true", "band: 0"], "shop.yaml:13: clocks.watermark.tuning.band: is 0"),
        (
            ["auto: true", "at_least: PT7H"],
            "shop.yaml:10: clocks.watermark.max_lateness: lies outside",
        ),
        (["auto: true", "at_most: PT5H"], "shop.yaml:10: clocks.watermark.max_lateness: lies outside"),
        (["catch: 1"], "shop.yaml:12: clocks.watermark.tuning.catch: "),
        (["share: 0.9"], "shop.yaml:12: clocks.watermark.tuning.share: unknown key"),
    ],
)
def test_contradictions_are_refused(tmp_path: Path, terms: list[str], mistake: str) -> None:
    with pytest.raises(ContractError) as refused:
        load(tmp_path, *terms)
    assert mistake in str(refused.value)


def test_bounds_alone_say_what_is_proposed_and_refuse_no_value(tmp_path: Path) -> None:
    watermark = load(tmp_path, "at_least: PT7H").clocks.watermark
    assert isinstance(watermark, BoundedWatermark)
    assert watermark.max_lateness < watermark.tuning.at_least
