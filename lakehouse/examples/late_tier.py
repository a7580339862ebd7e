"""The customers of the demo's shops, one of whose tiers arrives a week late: files, contracts, and the effect on numbers.

Only the texts of files and contracts are generated; the caller writes them. The sales are in ``sales_stream``. The effect is read
from the published numbers by tier: the restated days, and the unchanged ones.
"""

from __future__ import annotations

import csv
import io
import random
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from lakehouse.examples.sales_stream import CUSTOMERS, END, FIRST_DAY, records

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import date

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.series import Series
    from lakehouse.examples.sales_stream import Sale
    from lakehouse.gold.numbers.comparison import Sides
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.lake import Lake

SOURCE, BY_TIER, SHARE = "customers", "revenue_by_tier", "gold_share"
#: The customer is gold from the first of these days on; until the last file arrives, the second day is believed to be the first.
GOLD_SINCE, BELIEVED_SINCE = FIRST_DAY + timedelta(days=3), FIRST_DAY + timedelta(days=10)
_LISTED, _CORRECTED = END - timedelta(hours=18), END + timedelta(hours=10)
_JOINED = FIRST_DAY - timedelta(days=31)
_TIERS, _REGIONS = ("basic", "basic", "silver", "gold"), ("north", "south")
#: Sales that arrive later may wait for a steward.
_SOON = timedelta(days=5)

CONTRACTS = {
    f"{SOURCE}.yaml": f"""\
# Written by `lakehouse demo`.
dataset: {SOURCE}
kind: dimension
description: The customers of the demo's shops, with the tier and the region that each has from a time on.
owner: crm-team
primary_key: [customer_id]
source:
  landing: arrival_date={{arrival_date}}.csv
  format: csv
  start_date: {_JOINED:%Y-%m-%d}
clocks: {{event: changed_at, arrival: received_at}}
model:
  fields:
    - {{name: customer_id, type: int, required: true}}
    - {{name: tier, type: string, required: true}}
    - {{name: region, type: string}}
""",
    f"{BY_TIER}.yaml": f"""\
# Written by `lakehouse demo`.
metric: {BY_TIER}
description: Revenue of a day by the tier that the customer had when the sale happened.
owner: revenue-team
source: sales
joins:
  - {{dimension: {SOURCE}, on: customer_id, columns: [tier]}}
grain: [tier]
measures:
  - {{name: revenue, sql: sum(amount), type: "decimal(18,2)", additive: true}}
  - {{name: gold_revenue, sql: "sum(if(tier = 'gold', amount, 0))", type: "decimal(18,2)", additive: true}}
""",
    f"{SHARE}.yaml": f"""\
# Written by `lakehouse demo`.
metric: {SHARE}
description: The share of gold customers in the revenue of a day, in percent; made of published numbers.
owner: revenue-team
from: [{BY_TIER}, revenue]
measures:
  - {{name: gold_percent, sql: "100 * {BY_TIER}.gold_revenue / revenue.revenue", type: "decimal(5,2)"}}
""",
}


class CustomerChange(NamedTuple):
    """A record of a file: the attributes of a customer from a time on."""

    customer_id: int
    tier: str
    region: str
    changed_at: datetime
    received_at: datetime


def customer_of(sales: Iterable[Sale]) -> int:
    """Choose the customer whose tier arrives late: one with sales on as many days of the week in question as possible, and on
    other days.

    Customers with a changed sale, or a sale that waits for a steward, are left out.
    """
    days, plain = defaultdict[int, set[datetime]](set), set(range(1, CUSTOMERS))
    for sale in sales:
        days[sale.customer_id].add(sale.sold_at.replace(hour=0, minute=0, second=0))
        if sale.op != "insert" or sale.sale_id.startswith("S-") or sale.received_at - sale.sold_at > _SOON:
            plain.discard(sale.customer_id)

    def spread(customer: int) -> tuple[int, int, int]:
        inside = sum(GOLD_SINCE <= day < BELIEVED_SINCE for day in days[customer])
        outside = len(days[customer]) - inside
        return min(inside, outside, 1), inside, outside

    return max(sorted(plain), key=spread)


def files(seed: int) -> dict[str, str]:
    """The files, as file name to text: all customers, and the late change on the next day; the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311 (a demo, no secret)
    late = customer_of(records(seed))
    listed = [
        CustomerChange(number, chance.choice(_TIERS), chance.choice(_REGIONS), _JOINED, _LISTED) for number in range(1, CUSTOMERS)
    ]
    region = listed[late - 1].region
    listed[late - 1] = listed[late - 1]._replace(tier="silver")
    listed.append(CustomerChange(late, "gold", region, BELIEVED_SINCE, _LISTED))
    corrected = [CustomerChange(late, "gold", region, GOLD_SINCE, _CORRECTED)]
    return {f"arrival_date={changes[0].received_at:%Y-%m-%d}.csv": _text(changes) for changes in (listed, corrected)}


def _text(changes: Iterable[CustomerChange]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CustomerChange._fields)
    for change in changes:
        writer.writerow([f"{value:%Y-%m-%dT%H:%M:%SZ}" if isinstance(value, datetime) else value for value in change])
    return out.getvalue()


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
    from lakehouse.contracts.series import Series  # noqa: PLC0415 (the help of the command reads this module)
    from lakehouse.gold.publication import restatement_reports  # noqa: PLC0415
    from lakehouse.ledger import publications  # noqa: PLC0415

    by_tier, share = (Series(catalog.metrics[name]) for name in (BY_TIER, SHARE))
    known, shares = _history(lake, by_tier), _history(lake, share)
    restated = []
    for day, versions in known.items():
        for before, after in pairwise(versions):
            if because := restatement_reports.because(lake, by_tier, after):
                sides = _share_made_of(shares.get(day, []), day, after.label)
                restated.append(RestatedByTier(day, after.label, _tiers(before, after), because, sides))
    recorded = [one for one in publications.of(lake, by_tier.name) if one.dimension_changes]
    days, followed = {one.day for one in restated}, {one.day for one in restated if one.share}
    return LateTier(
        changes=list(restatement_reports.recorded_changes(lake, recorded[-1])["first"]) if recorded else [],
        restated=restated,
        kept=[day for day in known if day not in days],
        shares_kept=[day for day in shares if day not in followed],
    )


def _history(lake: Lake, series: Series) -> dict[date, list[PublishedVersion]]:
    from lakehouse.gold.numbers import history as numbers_history  # noqa: PLC0415

    return dict(sorted(numbers_history.history(lake, series).items()))


def _tiers(before: PublishedVersion, after: PublishedVersion) -> dict[str, Sides]:
    """The revenue of the tiers whose revenue changed."""
    from lakehouse.gold.numbers.comparison import Sides  # noqa: PLC0415

    old, new = ({row["tier"]: row["revenue"] for row in version.rows} for version in (before, after))
    sides = {tier: Sides(old.get(tier, Decimal(0)), new.get(tier, Decimal(0))) for tier in sorted({*old, *new})}
    return {tier: one for tier, one in sides.items() if one.changed}


def _share_made_of(versions: list[PublishedVersion], day: date, label: str) -> Sides | None:
    """The share before and after it first used revision ``label`` of the revenue by tier; None if it was not restated then."""
    from lakehouse.gold.numbers.comparison import Sides  # noqa: PLC0415

    for before, after in pairwise(versions):
        inputs = after.made_from.of_metrics.get(BY_TIER)
        if inputs and inputs.revisions.get(day) == label and after.has_new_content:
            (old,), (new,) = before.rows, after.rows
            return Sides(old["gold_percent"], new["gold_percent"])
    return None
