"""Reads the effect of the late tier change on the demo's published numbers: the restated days, and the unchanged ones.

The customers and the contracts are in ``late_tier``.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lakehouse.contracts.series import Series
from lakehouse.examples.late_tier import BY_TIER, SHARE
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers.comparison import Sides
from lakehouse.gold.publication import attribute_changes
from lakehouse.ledger import publications

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from lakehouse.contracts import Catalog
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.lake import Lake


@dataclass(frozen=True)
class RestatedByTier:
    """A day restated by the change: the revenue by tier before and after, and the share of gold if it followed."""

    day: date
    version: str
    tiers: Mapping[str, Sides]
    because: str
    share: Sides | None


@dataclass(frozen=True)
class LateTier:
    """The days that the change restated.

    ``changes`` are the dimension changes recorded by the newest publication; ``kept`` are the unchanged days of the revenue by
    tier, ``shares_kept`` the unchanged days of the share.
    """

    changes: list[dict[str, Any]]
    restated: list[RestatedByTier]
    kept: list[date]
    shares_kept: list[date]


def late_tier(lake: Lake, catalog: Catalog) -> LateTier:
    """The effects of the newest tier changes on the published days."""
    by_tier, share = (Series(catalog.metrics[name]) for name in (BY_TIER, SHARE))
    known, shares = _history(lake, by_tier), _history(lake, share)
    restated = []
    for day, versions in known.items():
        for before, after in pairwise(versions):
            if because := attribute_changes.because(lake, by_tier, after):
                sides = _share_made_of(shares.get(day, []), day, after.label)
                restated.append(RestatedByTier(day, after.label, _tiers(before, after), because, sides))
    recorded = [one for one in publications.of(lake, by_tier.name) if one.dimension_changes]
    days, followed = {one.day for one in restated}, {one.day for one in restated if one.share}
    return LateTier(
        changes=list(attribute_changes.recorded(lake, recorded[-1])["first"]) if recorded else [],
        restated=restated,
        kept=[day for day in known if day not in days],
        shares_kept=[day for day in shares if day not in followed],
    )


def _history(lake: Lake, series: Series) -> dict[date, list[PublishedVersion]]:
    return dict(sorted(numbers_history.history(lake, series).items()))


def _tiers(before: PublishedVersion, after: PublishedVersion) -> dict[str, Sides]:
    """The revenue of the tiers whose revenue changed."""
    old, new = ({row["tier"]: row["revenue"] for row in version.rows} for version in (before, after))
    sides = {tier: Sides(old.get(tier, Decimal(0)), new.get(tier, Decimal(0))) for tier in sorted({*old, *new})}
    return {tier: one for tier, one in sides.items() if one.changed}


def _share_made_of(versions: list[PublishedVersion], day: date, label: str) -> Sides | None:
    """The share before and after it first used revision ``label`` of the revenue by tier; None if it was not restated then."""
    for before, after in pairwise(versions):
        inputs = after.made_from.of_metrics.get(BY_TIER)
        if inputs and inputs.revisions.get(day) == label and after.has_new_content:
            (old,), (new,) = before.rows, after.rows
            return Sides(old["gold_percent"], new["gold_percent"])
    return None
