"""Redaction (right to erasure): hides fields of one key in silver and everything computed from it.

Bronze keeps the files as delivered; a redaction is one append to its own log. Masking stored rows of published numbers belongs to
``mask_published``, decisions about rows belong to ``decide``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakehouse.delta.table_cache import with_table_cache
from lakehouse.dispositions import account_tables, judgement_history
from lakehouse.dispositions.readings import in_force
from lakehouse.ledger import key_log, redactions
from lakehouse.ledger.redactions import Redaction
from lakehouse.silver.audit_overlay import erasure
from lakehouse.stewardship import mask_published
from lakehouse.stewardship.decide import StewardError, require_signature

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings


def redact_fields(
    settings: Settings,
    contract: SourceContract,
    key: str,
    fields: Collection[str],
    *,
    by: str,
    reason: str,
    metrics: Collection[MetricContract] = (),
) -> list[date]:
    """Hide ``fields`` of ``key`` in silver and everything computed from it.

    Earlier states may show the key's rows under other keys, if a later reading changed the key; the fields of those keys are
    hidden, too.

    :param metrics: the metrics that read the source, followed by the metrics derived from them: published rows whose grain shows
        a hidden value are masked.
    :returns: the event days that silver has to rebuild.
    :raises StewardError: if no row has the key, or a field is not in the contract or is part of the key.
    """
    settings = with_table_cache(settings)
    require_signature(by, reason)
    source = contract.dataset
    _check_fields(contract, fields)
    days = key_log.days_by_key(settings, source, [key])[key]
    if not key_log.arrival_days_of(settings, source, [key]):
        msg = f"no row of bronze/{source} has the key {key!r}"
        raise StewardError(msg)
    entry = Redaction(key, sorted(fields), by, reason, settings.clock(), touched_days=sorted(days))
    redactions.record(settings, source, entry)
    erasure.erase(settings, source)
    account_tables.after_decision(settings, contract, {key}, days)
    mask_published.mask(settings, contract, metrics, key, fields, days)
    for former in sorted(in_force.former_keys(settings, source, key)):
        former_days = judgement_history.event_days_of(settings, source, former)
        redactions.record(settings, source, replace(entry, record_key=former))
        erasure.erase(settings, source)
        mask_published.mask(settings, contract, metrics, former, fields, former_days)
    return sorted(days)


def _check_fields(contract: SourceContract, fields: Collection[str]) -> None:
    """:raises StewardError: without a field, or if a field is not in the contract or is part of the key."""
    names = [field.name for field in contract.typed_fields]
    unknown = sorted(set(fields) - set(names))
    if unknown or not fields:
        msg = f"{', '.join(unknown) or 'no field'}: not among the fields of {contract.dataset}: {', '.join(names)}"
        raise StewardError(msg)
    in_key = sorted(set(fields) & {*contract.primary_key, *(contract.synthetic_key.fields if contract.synthetic_key else ())})
    if in_key:
        msg = (
            f"{', '.join(in_key)} is part of the key, by which rows are found; to erase a key see 'The right to erasure' in "
            "docs/stewardship.md"
        )
        raise StewardError(msg)
