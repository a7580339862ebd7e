"""The files as they are delivered: payments every second Monday, cardholders and chargebacks at the end of a month.

A file holds what arrived since the one before it; each row has its own time of arrival. What the rows say belongs to the other
modules.
"""

from __future__ import annotations

import csv
import io
from datetime import date, datetime, timedelta
from importlib import resources
from typing import TYPE_CHECKING

from lakehouse.examples.card_payments import cardholders, chargebacks
from lakehouse.examples.card_payments.cardholders import FIRST_DAY, CardholderChange
from lakehouse.examples.card_payments.chargebacks import Chargeback
from lakehouse.examples.card_payments.payments import Payment, payments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

#: The first day on which a file is delivered.
HISTORY_BEGINS = date(2024, 6, 30)
_FORTNIGHT = timedelta(days=14)
PAYMENTS, CARDHOLDERS, CHARGEBACKS = "payments", "cardholders", "chargebacks"
METRIC, TRAINING_SET, MODEL = "payments_by_country", "training_data", "fraud"


def contracts() -> dict[str, str]:
    """File name to text of the contracts."""
    folder = resources.files("lakehouse.examples.card_payments") / "contracts"
    texts = {entry.name: entry.read_text(encoding="utf-8") for entry in folder.iterdir() if entry.name.endswith(".yaml")}
    return dict(sorted(texts.items()))


def files(seed: int) -> dict[str, dict[str, str]]:
    """By source, file name to text; the same for the same seed."""
    of_payments = [fields[:-1] for fields in payments(seed)]  # the truth is in no file
    at_payments = Payment._fields.index("received_at")
    at_holders = CardholderChange._fields.index("received_at")
    return {
        CARDHOLDERS: _by_delivery(CardholderChange._fields, cardholders.changes(seed), at_holders, _month_end),
        PAYMENTS: _by_delivery(Payment._fields[:-1], of_payments, at_payments, _second_monday),
        CHARGEBACKS: _chargebacks(chargebacks.history(seed)),
    }


def correction(seed: int) -> dict[str, str]:
    """File name to text of the one delivery of chargebacks after the history: the result of the investigation."""
    records = chargebacks.investigated(seed)
    return {_name(chargebacks.INVESTIGATION_ARRIVES.date()): _text(Chargeback._fields, records)}


def _chargebacks(records: Sequence[Chargeback]) -> dict[str, str]:
    return _by_delivery(Chargeback._fields, records, Chargeback._fields.index("received_at"), _month_end)


def _by_delivery(
    header: Sequence[str], rows: Iterable[tuple[object, ...]], at: int, delivered: Callable[[datetime], date]
) -> dict[str, str]:
    """File name to text.

    :param at: the position of the time of arrival in a row.
    :param delivered: the day of the delivery of what arrives at a time.
    """
    by_day: dict[date, list[tuple[object, ...]]] = {}
    for row in rows:
        moment = row[at]
        assert isinstance(moment, datetime)  # noqa: S101 (the caller names the column)
        by_day.setdefault(delivered(moment), []).append(row)
    return {_name(day): _text(header, by_day[day]) for day in sorted(by_day)}


def _second_monday(moment: datetime) -> date:
    fortnights = (moment - FIRST_DAY) // _FORTNIGHT + 1
    return (FIRST_DAY + fortnights * _FORTNIGHT).date()


def _month_end(moment: datetime) -> date:
    """The last day of a month; what arrives on it is delivered with it."""
    in_next = moment.date().replace(day=28) + timedelta(days=4)
    return in_next - timedelta(days=in_next.day)


def _name(day: date) -> str:
    return f"arrival_date={day}.csv"


def _text(header: Sequence[str], rows: Iterable[tuple[object, ...]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow([f"{value:%Y-%m-%dT%H:%M:%SZ}" if isinstance(value, datetime) else value for value in row])
    return out.getvalue()
