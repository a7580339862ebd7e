"""``changes.corrections: partial``: corrections that carry only what they change, and what a contract cannot combine with them.

How their empty fields are filled is in ``dispositions.readings.completed``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract

_KEY = "changes.corrections"


def mistakes(contract: SourceContract) -> Iterator[str]:
    """What a contract with partial corrections excludes, each as ``key: sentence``."""
    if not contract.has_partial_corrections:
        return
    changes, policy = contract.changes, contract.materialization.reprocess_policy
    if contract.source.envelope:
        yield f"{_KEY}: the records of a change feed are whole; leave the key out"
    elif not (changes.op or changes.is_correction):
        yield f"{_KEY}: no record is a correction; name 'changes.op' or 'changes.is_correction', or leave the key out"
    if contract.is_dimension:
        yield f"{_KEY}: a change of a dimension has all attributes; leave the key out"
    if policy != "merge":
        yield f"{_KEY}: needs 'reprocess_policy: merge'; under {policy} a record is taken as it was sent"
    if contract.synthetic_key:
        yield f"{_KEY}: a synthetic key is made of fields that a partial correction may lack; needs a primary_key"
    if changes.corrects_event_id:
        yield (
            f"{_KEY}: a correction under another key ('changes.corrects_event_id') replaces the whole record; leave one of the "
            "two out"
        )


def misfits(metric: MetricContract, sources: Mapping[str, SourceContract]) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """What does not fit between a metric and sources with partial corrections: where in the metric's file, and what to do."""
    partial = [entry.source for entry in metric.read if entry.source in sources and sources[entry.source].has_partial_corrections]
    if metric.late_events is not None and partial:
        yield (
            ("late_events",),
            f"a row of {partial[0]} that came too late may have filled a partial correction ('{_KEY}'); leave the key out",
        )
    if metric.live is not None and partial:
        yield (
            ("live",),
            f"a stream has no earlier records to fill the partial corrections of {partial[0]} from ('{_KEY}'); leave the key out",
        )
