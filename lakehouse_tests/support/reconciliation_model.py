"""The causes of differences between the stream and the books, by rules for single rows: a plain model."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from lakehouse_tests.support.live_lake import QUARANTINED_FROM, StreamModel
from lakehouse_tests.support.windowed_lake import Event

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakehouse.live.causes import Reconciled

#: By first moment of a window and cause the sum of amounts and the number of rows.
Causes = dict[tuple[datetime, str], tuple[int, int]]
#: A delivery and whether the stream has read it.
History = list[tuple[list[Event], bool]]


def causes_by_model(history: History, model: StreamModel) -> Causes:
    """The effect of each cause by the rules for a single row, for rows and amounts, which add up."""
    effects: dict[tuple[datetime, str], list[int]] = defaultdict(lambda: [0, 0])
    for event, start in model.dropped:
        effects[start, "late_dropped"][0] += event.amount
        effects[start, "late_dropped"][1] += 1
    for event, cause, sign in changes(history, model):
        for start in model.windows_of(event):
            effects[start, cause][0] += sign * event.amount
            effects[start, cause][1] += sign
    return {cell: (amount, count) for cell, (amount, count) in effects.items() if amount or count}


def changes(history: History, model: StreamModel) -> Iterator[tuple[Event, str, int]]:
    """The records that the books count differently than the stream, other than late ones, each with the cause and 1 or -1."""
    by_key: dict[str, list[Event]] = defaultdict(list)
    for events, is_read in history:
        yield from ((event, "not_read", 1) for event in events if event.op == "insert" and not is_read)
        for event in events:
            by_key[event.key].append(event)
    for records in by_key.values():
        barred = [
            event for event in records if event.amount >= QUARANTINED_FROM and event.op != "delete"
        ]  # a delete has no content
        yield from ((event, "quarantined", -1) for event in barred if event.op == "insert")
        yield from changes_of_key([event for event in records if event not in barred], model)


def changes_of_key(records: Sequence[Event], model: StreamModel) -> Iterator[tuple[Event, str, int]]:
    """The records about a key that may contend for it, oldest first: each that the books count differently, and why."""
    if not records:
        return
    winner, superseded = records[-1], []
    for place, event in enumerate(records[:-1]):
        if event.op != "insert":
            continue
        equal = [later for later in records[place + 1 :] if (later.at, later.amount) == (event.at, event.amount)]
        if equal and equal[-1].op == "insert":
            yield event, "duplicate", -1
        elif winner.op == "delete" or (equal and equal[-1].op == "delete"):
            yield event, "deleted", -1
        else:
            superseded.append(event)
    for event in superseded:
        yield event, "corrected" if model.windows_of(event) == model.windows_of(winner) else "moved", -1
    if winner.op == "correct":
        was_here = any(model.windows_of(event) == model.windows_of(winner) for event in superseded)
        was_inserted = any(event.op == "insert" for event in records)
        yield winner, "moved" if was_inserted and not was_here else "corrected", 1


def causes_of(entry: Reconciled) -> dict[str, Decimal]:
    """The causes of a difference as numbers."""
    return {name: Decimal(value) for name, value in entry.causes.items()}
