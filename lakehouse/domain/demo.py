"""A seeded stream of sales as a shop chain would send it: late, corrected, moved, withdrawn, and once delivered twice.

Only the text of the files is made here; where they go is the caller's business.
"""

from __future__ import annotations

import csv
import io
import random
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

FIRST_DAY = datetime(2024, 11, 1, tzinfo=timezone.utc)
DAYS = 14
SALES_A_DAY = 60
# Shares, cumulated: of arrivals, and of what happens later.
_LATE, _VERY_LATE = 0.10, 0.11
_CORRECTED, _MOVED, _WITHDRAWN, _RENAMED = 0.030, 0.040, 0.050, 0.056
_STORES = ("harbour", "market", "station")
_HEADER = ("sale_id", "store", "sold_at", "amount", "customer_id", "received_at", "op", "is_correction", "corrects_sale_id")


@dataclass(frozen=True)
class Sale:
    """One record of a file."""

    sale_id: str
    store: str
    sold_at: datetime
    amount: str
    customer_id: int
    received_at: datetime
    op: str = "insert"
    corrects_sale_id: str = ""


def files(seed: int) -> dict[str, str]:
    """File name to text, one file per arrival day and one re-delivery; the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311 (a demo, no secret)
    originals = [_sale(chance, day, number) for day in range(DAYS) for number in range(SALES_A_DAY)]
    changes = [change for sale in originals for change in _changes(chance, sale)]
    changed = {change.corrects_sale_id or change.sale_id for change in changes}
    records = [*originals, *changes, _old_move(next(sale for sale in originals if sale.sale_id not in changed))]
    by_day: dict[str, list[Sale]] = {}
    last_day = FIRST_DAY + timedelta(days=DAYS + 2)
    for record in sorted(records, key=lambda one: (one.received_at, one.sale_id)):
        if record.received_at < last_day:
            by_day.setdefault(f"{record.received_at:%Y-%m-%d}", []).append(record)
    texts = {f"arrival_date={day}.csv": _text(sales) for day, sales in by_day.items()}
    days = sorted(by_day)
    texts[f"arrival_date={days[6]}.csv"] += f"S-broken,market,{days[6]}T09:00:00Z,12.x,7,{days[6]}T23:00:00Z,insert,0,\n"
    texts[f"arrival_date={days[9]}.again.csv"] = texts[f"arrival_date={days[4]}.csv"]
    return texts


def _sale(chance: random.Random, day: int, number: int) -> Sale:
    sold = FIRST_DAY + timedelta(days=day, seconds=chance.randrange(7 * 3600, 21 * 3600))
    fate = chance.random()
    if fate < _LATE:
        delay = timedelta(hours=chance.uniform(24, 72))
    elif fate < _VERY_LATE:
        delay = timedelta(days=chance.uniform(5, 12))
    else:
        delay = timedelta(minutes=chance.uniform(1, 90))
    amount = f"{chance.lognormvariate(3, 0.6):.2f}"
    return Sale(f"S{day:02}{number:03}", chance.choice(_STORES), sold, amount, chance.randrange(1, 200), _second(sold + delay))


def _changes(chance: random.Random, sale: Sale) -> Iterable[Sale]:
    """What happens to a sale after it was first sent; mostly nothing."""
    fate = chance.random()
    later = _second(sale.received_at + timedelta(days=chance.uniform(1, 6)))
    if fate < _CORRECTED:
        yield replace(
            sale, received_at=later, op="correct", amount=f"{float(sale.amount) * 0.9:.2f}", corrects_sale_id=sale.sale_id
        )
    elif fate < _MOVED:
        other_day = sale.sold_at + timedelta(days=1 if sale.sold_at < FIRST_DAY + timedelta(days=1) else -1)
        yield replace(sale, received_at=max(later, other_day), op="correct", sold_at=other_day, corrects_sale_id=sale.sale_id)
    elif fate < _WITHDRAWN:
        yield replace(sale, received_at=later, op="delete")
    elif fate < _RENAMED:
        yield replace(sale, sale_id=f"{sale.sale_id}-R", received_at=later, op="correct", corrects_sale_id=sale.sale_id)


def _old_move(sale: Sale) -> Sale:
    """On the last day a sale of the first day turns out to be of the second: old days that nothing else touches then."""
    received = FIRST_DAY + timedelta(days=DAYS + 1, hours=12)
    moved = sale.sold_at + timedelta(days=1)
    return replace(sale, sold_at=moved, received_at=received, op="correct", corrects_sale_id=sale.sale_id)


def _second(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)


def _text(sales: Iterable[Sale]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_HEADER)
    for sale in sales:
        correction = int(sale.op == "correct")
        writer.writerow(
            [
                sale.sale_id,
                sale.store,
                f"{sale.sold_at:%Y-%m-%dT%H:%M:%SZ}",
                sale.amount,
                sale.customer_id,
                f"{sale.received_at:%Y-%m-%dT%H:%M:%SZ}",
                sale.op,
                correction,
                sale.corrects_sale_id,
            ]
        )
    return out.getvalue()
