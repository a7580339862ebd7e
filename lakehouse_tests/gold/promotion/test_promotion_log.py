"""``ops/moves``: the promotions of a metric, written once after the commits and restored from them."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.contracts.series import Series
from lakehouse.delta import provenance
from lakehouse.gold.promotion import promotion_log
from lakehouse.gold.promotion.promotion_log import PromotionKind
from lakehouse_tests.support.two_dataset_versions import at, catalog, metric, promote, publish_totals, rollback, three_days

if TYPE_CHECKING:
    from lakehouse.lake import Lake

GOLD = Series(metric())


def test_a_promotion_reports_all_that_readers_have_to_know(lake: Lake) -> None:
    three_days(lake)
    promote(lake, catalog(), notes=lambda plan: f"{plan.to.name}: {len(plan.drafts)}")
    (move,) = promotion_log.of(lake, "total")
    assert (move.kind, move.from_version, move.to_version, move.periods) == (PromotionKind.PROMOTE, 1, 2, 1)
    assert (move.by, move.reason, move.moved_at) == ("ana", "net of refunds", lake.now())
    assert move.release_notes == "total: 1"
    hashes = {name: provenance.of_contract(one) for name, one in (("total", metric(1)), ("total_v2", metric(2)))}
    assert move.inputs == {"gold/total_v2": 1, "contracts": hashes}
    assert move.accepted == []


def test_lost_promotions_are_restored_from_the_commits(lake: Lake) -> None:
    three_days(lake)
    promote(lake, catalog(), notes=lambda _: "notes")
    at(lake, 6)
    publish_totals(lake, Series(metric(2), called="total"), {3: 31})
    rollback(lake, catalog())
    known = promotion_log.of(lake, "total")
    assert [one.kind for one in known] == [PromotionKind.PROMOTE, PromotionKind.ROLLBACK]
    assert promotion_log.follow(lake, "total", locations.gold(lake, GOLD)) == 0
    rmtree(Path(locations.promotion_log(lake).address))
    assert promotion_log.of(lake, "total") == []
    assert promotion_log.follow(lake, "total", locations.gold(lake, GOLD)) == 2
    assert promotion_log.of(lake, "total") == known


def test_without_a_table_nothing_was_promoted(lake: Lake) -> None:
    assert promotion_log.follow(lake, "total", locations.gold(lake, GOLD)) == 0
    assert promotion_log.of(lake, "total") == []
