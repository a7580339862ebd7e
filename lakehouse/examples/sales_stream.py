"""A seeded stream of a shop chain's sales: late, corrected, moved, withdrawn, and once delivered twice.

Only the text of the files is generated here; the caller writes them. The stream ends with the second day after the last sales;
later records are left out.
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
#: Customer numbers are below this number.
CUSTOMERS = 200
END = FIRST_DAY + timedelta(days=DAYS + 2)
# Cumulated shares: of arrivals, and of later events.
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


def records(seed: int) -> list[Sale]:
    """All records, in order of arrival; the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311 (a demo, no secret)
    originals = [_sale(chance, day, number) for day in range(DAYS) for number in range(SALES_A_DAY)]
    changes = [change for sale in originals for change in _changes(chance, sale)]
    sent = [*originals, *changes, _old_move(originals, changes), _broken(), _doubtful(), *_offline_till()]
    return sorted((one for one in sent if one.received_at < END), key=lambda one: (one.received_at, one.sale_id))


def files(seed: int) -> dict[str, str]:
    """The files, as file name to text: one file per arrival day and one re-delivery; the same for the same seed."""
    by_day: dict[str, list[Sale]] = {}
    for record in records(seed):
        by_day.setdefault(_day(record.received_at), []).append(record)
    texts = {f"arrival_date={day}.csv": _text(sales) for day, sales in by_day.items()}
    days = sorted(by_day)
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
    return Sale(
        f"S{day:02}{number:03}", chance.choice(_STORES), sold, amount, chance.randrange(1, CUSTOMERS), _second(sold + delay)
    )


def _changes(chance: random.Random, sale: Sale) -> Iterable[Sale]:
    """The later records of a sale; most sales have none."""
    fate = chance.random()
    later = _second(sale.received_at + timedelta(days=chance.uniform(1, 6)))
    if fate < _CORRECTED:
        yield replace(sale, received_at=later, op="correct", amount=_reduced(sale))
    elif fate < _MOVED:
        other_day = sale.sold_at + timedelta(days=1 if sale.sold_at < FIRST_DAY + timedelta(days=1) else -1)
        yield replace(sale, received_at=max(later, other_day), op="correct", sold_at=other_day)
    elif fate < _WITHDRAWN:
        yield replace(sale, received_at=later, op="delete")
    elif fate < _RENAMED:
        yield replace(
            sale,
            sale_id=f"{sale.sale_id}-R",
            received_at=later,
            op="correct",
            amount=_reduced(sale),
            corrects_sale_id=sale.sale_id,
        )


def _old_move(originals: list[Sale], changes: list[Sale]) -> Sale:
    """A record of the last arrival day that moves a sale to the next day; no other record of that day affects these two days."""
    received = END - timedelta(hours=12)
    sold = {sale.sale_id: sale.sold_at for sale in originals}
    arrived = [record for record in (*originals, *changes) if _day(record.received_at) == _day(received)]
    touched = {_day(record.sold_at) for record in arrived}
    touched |= {_day(sold[record.corrects_sale_id or record.sale_id]) for record in arrived}
    changed = {change.corrects_sale_id or change.sale_id for change in changes}
    for sale in originals:
        next_day = sale.sold_at + timedelta(days=1)
        if (
            sale.sale_id not in changed
            and sale.received_at < received
            and touched.isdisjoint({_day(sale.sold_at), _day(next_day)})
        ):
            return replace(sale, sold_at=next_day, received_at=received, op="correct")
    raise AssertionError("the last arrival touches every second day")


def _broken() -> Sale:
    """The only record whose amount is not a number."""
    sold = FIRST_DAY + timedelta(days=6, hours=9)
    return Sale("S-broken", "market", sold, "12.x", 7, sold + timedelta(minutes=10))


def _doubtful() -> Sale:
    """The only sale with a negative amount: it fails a rule of the contract and waits for a steward."""
    sold = FIRST_DAY + timedelta(days=8, hours=15)
    return Sale("S-doubtful", "harbour", sold, "-24.50", 7, sold + timedelta(minutes=10))


def _offline_till() -> Iterable[Sale]:
    """The sales of a till that was offline for a week: they arrive together, beyond the contract's watermark."""
    opened, received = FIRST_DAY + timedelta(days=8, hours=9), END - timedelta(minutes=10)
    for number in range(6):
        sold = opened + timedelta(minutes=40 * number)
        yield Sale(f"S-till-{number + 1}", "station", sold, f"{12 + 3 * number}.50", 7, received)


def _reduced(sale: Sale) -> str:
    return f"{float(sale.amount) * 0.9:.2f}"


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}"


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
