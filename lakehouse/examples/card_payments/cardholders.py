"""The cardholders, with the history of each one's country and tier. Changes arrive up to weeks late.

Payments belong to ``payments``.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

FIRST_DAY = datetime(2024, 7, 1, tzinfo=timezone.utc)
#: No payment happens from this time on.
END = datetime(2024, 12, 1, tzinfo=timezone.utc)
CARDHOLDERS = 500
COUNTRIES = ("AT", "DE", "FR", "NL")
_LISTED, _JOINED = FIRST_DAY - timedelta(hours=18), FIRST_DAY - timedelta(days=181)
_TIERS, _TIER_WEIGHTS = ("new", "standard", "premium"), (2, 5, 2)
_MOVES = 0.10
_ESTABLISHED = 0.8
_KNOWN_AFTER_DAYS = 21


class CardholderChange(NamedTuple):
    """A record of a file: the country and tier of a cardholder from a time on."""

    customer_id: str
    country: str
    tier: str
    changed_at: datetime
    received_at: datetime


def changes(seed: int) -> list[CardholderChange]:
    """The list of all cardholders, then their changes in the order of arrival; the same for the same seed.

    Every cardholder is listed before the first payment. A cardholder changes at most once, and the change arrives up to three
    weeks later.
    """
    chance = random.Random(f"cardholders {seed}")  # noqa: S311 (an example, no secret)
    listed = [
        CardholderChange(f"C{number:04}", chance.choice(COUNTRIES), chance.choices(_TIERS, _TIER_WEIGHTS)[0], _JOINED, _LISTED)
        for number in range(CARDHOLDERS)
    ]
    later = [change for holder in listed for change in _changes(chance, holder)]
    return [*listed, *sorted(later, key=lambda change: (change.received_at, change.customer_id))]


def _changes(chance: random.Random, holder: CardholderChange) -> list[CardholderChange]:
    """The single later change of a cardholder, or none: a move to another country, or the end of the tier "new"."""
    changed = FIRST_DAY + timedelta(seconds=chance.randrange(int((END - FIRST_DAY).total_seconds())))
    known = changed + timedelta(days=chance.randrange(1, _KNOWN_AFTER_DAYS), minutes=chance.randrange(60))
    moves, settles = chance.random() < _MOVES, chance.random() < _ESTABLISHED
    if known >= END:
        return []
    if moves:
        country = chance.choice([other for other in COUNTRIES if other != holder.country])
        return [holder._replace(country=country, changed_at=changed, received_at=known)]
    if holder.tier == "new" and settles:
        return [holder._replace(tier="standard", changed_at=changed, received_at=known)]
    return []
