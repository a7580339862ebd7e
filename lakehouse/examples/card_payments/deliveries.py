"""The files as they are delivered: payments every second Monday, cardholders and chargebacks at the end of a month.

A file holds the rows that arrived since the previous file; each row has its own arrival time. The content of the rows belongs to
the other modules.
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

#: The first day of a delivery.
HISTORY_BEGINS = date(2024, 6, 30)
_FORTNIGHT = timedelta(days=14)
PAYMENTS, CARDHOLDERS, CHARGEBACKS = "payments", "cardholders", "chargebacks"
METRIC, TRAINING_SET, MODEL = "payments_by_country", "training_data", "fraud"


def contracts() -> dict[str, str]:
    """The contracts, as file name to text."""
    folder = resources.files("lakehouse.examples.card_payments") / "contracts"
    texts = {entry.name: entry.read_text(encoding="utf-8") for entry in folder.iterdir() if entry.name.endswith(".yaml")}
    return dict(sorted(texts.items()))


def files(seed: int) -> dict[str, dict[str, str]]:
    """The files of each source, as file name to text; the same for the same seed."""
    of_payments = [fields[:-1] for fields in payments(seed)]  # no file contains the truth
    at_payments = Payment._fields.index("received_at")
    at_holders = CardholderChange._fields.index("received_at")
    return {
        CARDHOLDERS: _by_delivery(CardholderChange._fields, cardholders.changes(seed), at_holders, _month_end),
        PAYMENTS: _by_delivery(Payment._fields[:-1], of_payments, at_payments, _second_monday),
        CHARGEBACKS: _chargebacks(chargebacks.history(seed)),
    }


def correction(seed: int) -> dict[str, str]:
    """The only delivery of chargebacks after the history, as file name to text: the result of the investigation."""
    records = chargebacks.investigated(seed)
    return {_name(chargebacks.INVESTIGATION_ARRIVES.date()): _text(Chargeback._fields, records)}


def _chargebacks(records: Sequence[Chargeback]) -> dict[str, str]:
    return _by_delivery(Chargeback._fields, records, Chargeback._fields.index("received_at"), _month_end)


def _by_delivery(
    header: Sequence[str], rows: Iterable[tuple[object, ...]], at: int, delivered: Callable[[datetime], date]
) -> dict[str, str]:
    """Group rows by delivery, as file name to text.

    :param at: the position of the arrival time in a row.
    :param delivered: the delivery day of a row that arrives at a time.
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
    """The last day of the month; rows that arrive on it are delivered with it."""
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
