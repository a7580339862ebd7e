"""The effect of a changed contract key on existing rows and numbers.

Two tables, for sources and for metrics, give the effect of every key; a test fails for a key that has none. Belongs here: the
comparison of two contracts as a plain function. The contract under which the lake was filled is in ``ledger.contract_archive``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from lakehouse.contracts.base import is_only_wider
from lakehouse.contracts.source import SourceContract
from lakehouse.contracts.sql_syntax import tokens_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakehouse.contracts.metric import MetricContract


class KeyEffect(Enum):
    """The effect of a key's change, the most severe first."""

    #: The key decides which rows are the same event, where they are stored and which of them counts: old and new rows cannot be
    #: mixed.
    IDENTITY = "identity"
    #: The key decides what a published number means: old and new numbers cannot be mixed.
    MEANING = "meaning"
    #: The key decides which rows silver chooses: days that are not rebuilt keep the previous choice.
    CHOICE = "choice"
    #: The key decides the first partition.
    BEGINNING = "beginning"
    #: The key decides how a record is read: new records are read by the new value, existing rows stay until they are reread.
    READING = "reading"
    #: No existing data depends on the key, or it is compared elsewhere: a type with the table's columns.
    NOTHING = "nothing"


_NOTHING = KeyEffect.NOTHING
_DESCRIPTIONS = dict.fromkeys(("version", "info", "description", "owner", "tags", "alerts"), _NOTHING)

#: By key of a source's contract, or by whole section; the longest match decides.
OF_SOURCE: Mapping[str, KeyEffect] = _DESCRIPTIONS | {
    "dataset": _NOTHING,
    "kind": KeyEffect.IDENTITY,
    "primary_key": KeyEffect.IDENTITY,
    "synthetic_key": KeyEffect.IDENTITY,
    "model.fields": KeyEffect.READING,
    "model.fields.name": _NOTHING,
    "model.fields.type": _NOTHING,
    "model.fields.required": KeyEffect.READING,
    "model.fields.column": KeyEffect.READING,
    "model.fields.description": _NOTHING,
    "quality.row_rules": KeyEffect.CHOICE,
    "quality.row_count": _NOTHING,
    "quality.malformed": _NOTHING,
    "quality.nulls": _NOTHING,
    "quality.severity": _NOTHING,
    "materialization.strategy": _NOTHING,
    "materialization.partition_by": _NOTHING,
    "materialization.reprocess_policy": KeyEffect.CHOICE,
    "materialization.max_shrink": KeyEffect.CHOICE,
    "materialization.repeated_content": KeyEffect.CHOICE,
    "materialization.delivery": KeyEffect.CHOICE,
    "materialization.target_path": _NOTHING,
    "materialization.format": _NOTHING,
    "source.landing": _NOTHING,
    "source.kafka.topic": _NOTHING,
    "source.kafka.servers": _NOTHING,
    "source.kafka.options": _NOTHING,
    "source.kafka.values": KeyEffect.READING,
    "source.kafka.tombstones": KeyEffect.READING,
    "source.complete_when": _NOTHING,
    "source.format": KeyEffect.READING,
    "source.envelope": KeyEffect.IDENTITY,
    "source.delimiter": KeyEffect.READING,
    "source.quote": KeyEffect.READING,
    "source.null_values": KeyEffect.READING,
    "source.formats": KeyEffect.READING,
    "source.joined": KeyEffect.READING,
    "source.columns": KeyEffect.READING,
    "source.skip_lines": KeyEffect.READING,
    "source.comment": KeyEffect.READING,
    "source.array": KeyEffect.READING,
    "source.blank_is_null": KeyEffect.READING,
    "source.start_date": KeyEffect.BEGINNING,
    "source.system": KeyEffect.READING,
    "clocks.event": KeyEffect.IDENTITY,
    "clocks.arrival": KeyEffect.IDENTITY,
    "clocks.timezone": KeyEffect.READING,
    "clocks.naive_times": KeyEffect.READING,
    "clocks.repeated_hour": KeyEffect.READING,
    "clocks.start_date": KeyEffect.BEGINNING,
    "clocks.max_ahead": KeyEffect.READING,
    "clocks.watermark": _NOTHING,
    "clocks.watermark.marker": KeyEffect.READING,
    "changes.op": KeyEffect.IDENTITY,
    "changes.insert_words": KeyEffect.READING,
    "changes.correct_words": KeyEffect.READING,
    "changes.delete_words": KeyEffect.READING,
    "changes.retract_words": KeyEffect.READING,
    "changes.is_correction": KeyEffect.READING,
    "changes.corrects_event_id": KeyEffect.IDENTITY,
    "changes.corrected_by": KeyEffect.READING,
    "changes.correction_reason": KeyEffect.READING,
    "changes.corrected_field": KeyEffect.READING,
    "changes.corrections": KeyEffect.CHOICE,
    "order.sequence": KeyEffect.IDENTITY,
    "dimension.untracked": KeyEffect.CHOICE,
    "dimension.valid_to": KeyEffect.READING,
    "dimension.valid_to_is_last_day": KeyEffect.READING,
    "dimension.buckets": _NOTHING,
    "lateness": _NOTHING,
    "stewards": _NOTHING,
    "freshness": _NOTHING,
    "rolling_backfill": _NOTHING,
}

#: The same for a metric's contract.
OF_METRIC: Mapping[str, KeyEffect] = _DESCRIPTIONS | {
    "metric": _NOTHING,
    "source": KeyEffect.MEANING,
    "sources": KeyEffect.MEANING,
    "deduplicate_by": KeyEffect.MEANING,
    "joins": KeyEffect.MEANING,
    "joins.max_unmatched": _NOTHING,
    "derived_from": KeyEffect.MEANING,
    "inputs": _NOTHING,
    "grain": KeyEffect.MEANING,
    "measures": KeyEffect.MEANING,
    "measures.description": _NOTHING,
    "rows": KeyEffect.MEANING,
    "window": KeyEffect.MEANING,
    "late_events": KeyEffect.MEANING,
    "late_events.at_close": _NOTHING,  # a number that is final keeps the rule by which it was closed
    "late_events.patch": _NOTHING,
    "late_events.topic": _NOTHING,
    "live": _NOTHING,
    "reconcile": _NOTHING,
    "publication.start_delay": _NOTHING,
    "publication.preliminary_after": _NOTHING,
    "publication.final_after": _NOTHING,
    "publication.final_needs": _NOTHING,
    "publication.close_by": _NOTHING,
    "publication.closes_with": _NOTHING,
    "publication.after_close": _NOTHING,
    "publication.rollups": _NOTHING,
    "publication.fiscal_year_starts": KeyEffect.MEANING,
    "publication.timezone": _NOTHING,
    "publication.approvals": _NOTHING,
    "publication.patch_up_to": _NOTHING,
    "checks": _NOTHING,
    "dataset_version": _NOTHING,
    "deprecated_on": _NOTHING,
    "consumers": _NOTHING,
    "materiality": _NOTHING,
}

#: The effect of a type that only becomes wider: a field reads values that were too large for it, a measure stays what it is.
_OF_WIDER_TYPES: Mapping[str, KeyEffect] = {"model.fields.type": KeyEffect.READING, "measures.type": _NOTHING}

#: What tells the entries of a list from each other, if they are mappings.
_NAMES = ("name", "dimension", "source")


@dataclass(frozen=True)
class ChangedKey:
    """A key whose value changed; ``key`` is written as in the file, with the names of list entries."""

    key: str
    before: Any
    after: Any
    effect: KeyEffect

    def __str__(self) -> str:
        """The key with its old and its new value."""
        return f"{self.key}: was {_shown(self.before)} and is {_shown(self.after)}"


def compare(before: SourceContract | MetricContract, after: SourceContract | MetricContract) -> list[ChangedKey]:
    """The changed keys that have an effect, the most severe effect first.

    :param before: the contract under which the lake was filled; of the same kind as ``after``.
    """
    effects = OF_SOURCE if isinstance(after, SourceContract) else OF_METRIC
    then, now = (_leaves(contract.model_dump(mode="json")) for contract in (before, after))
    identity = _columns_of_identity(before, after)
    changes = [*_entries_of_one_side(before, after, effects)]
    whole = tuple(f"{each.key}." for each in changes)
    for key in dict.fromkeys([*then, *now]):
        path, old, new = (then.get(key) or now[key]).path, then.get(key), now.get(key)
        if (old and old.meaning) != (new and new.meaning) and not key.startswith(whole):
            effect = KeyEffect.IDENTITY if key in identity else effect_of(path, effects)
            if old and new and path in _OF_WIDER_TYPES and is_only_wider(old.value, new.value):
                effect = _OF_WIDER_TYPES[path]
            changes.append(ChangedKey(key, old and old.value, new and new.value, effect))
    severity = list(KeyEffect)
    return sorted((each for each in changes if each.effect is not _NOTHING), key=lambda each: severity.index(each.effect))


def effect_of(path: str, effects: Mapping[str, KeyEffect]) -> KeyEffect:
    """The effect of a key, such as ``model.fields.type``.

    :raises KeyError: if neither the key nor a section that contains it has an effect.
    """
    parts = path.split(".")
    known = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return effects[next((name for name in known if name in effects), path)]


def _entries_of_one_side(
    before: SourceContract | MetricContract, after: SourceContract | MetricContract, effects: Mapping[str, KeyEffect]
) -> Iterator[ChangedKey]:
    """The fields or measures that only one contract has; the column of a removed field stays, empty in new rows."""
    if isinstance(before, SourceContract) and isinstance(after, SourceContract):
        types = [{field.name: field.type for field in each.model.fields} for each in (before, after)]
        section, if_removed = "model.fields", _NOTHING
    elif not isinstance(before, SourceContract) and not isinstance(after, SourceContract):
        types = [{measure.name: measure.sql for measure in each.measures} for each in (before, after)]
        section, if_removed = "measures", effects["measures"]
    else:
        return
    for name in dict.fromkeys([*types[0], *types[1]]):
        old, new = (of.get(name) for of in types)
        if old is None or new is None:
            yield ChangedKey(f"{section}.{name}", old, new, if_removed if new is None else effects[section])


def _columns_of_identity(before: SourceContract | MetricContract, after: SourceContract | MetricContract) -> set[str]:
    """The keys of columns that form a source's key or event time: a change of these affects identity."""
    if not (isinstance(before, SourceContract) and isinstance(after, SourceContract)):
        return set()
    of_key = {*after.primary_key, *(after.synthetic_key.fields if after.synthetic_key else ())}
    if before.event_column != after.event_column:
        of_key |= {"event_ts", "event_date"}
    return {f"model.fields.{name}.column" for name in of_key}


class _Leaf(NamedTuple):
    """A value in a contract; ``path`` is its key without the names of list entries, ``meaning`` what is compared."""

    path: str
    value: Any
    meaning: Any


def _leaves(content: Any, key: str = "", path: str = "") -> dict[str, _Leaf]:
    """The values of a contract by key; unset values are left out."""
    entries: list[tuple[str, str, Any]] = []
    if isinstance(content, dict):
        entries = [(f"{key}.{name}".lstrip("."), f"{path}.{name}".lstrip("."), value) for name, value in content.items()]
    elif isinstance(content, list) and all(isinstance(entry, dict) for entry in content):
        names = [next((entry[name] for name in _NAMES if entry.get(name)), None) for entry in content]
        if None not in names and len({*names}) == len(names):
            entries = [(f"{key}.{name}", path, entry) for name, entry in zip(names, content)]
    if not entries:
        is_sql = isinstance(content, str) and path.endswith("sql")
        # Blanks and remarks between tokens mean nothing; within a text, or where a remark ends, they do.
        meaning = tokens_of(content, spaces=False) if is_sql else content
        return {} if content is None or content in ([], {}) else {key: _Leaf(path, content, meaning)}
    found: dict[str, _Leaf] = {}
    for of_entry in entries:
        found |= _leaves(of_entry[2], of_entry[0], of_entry[1])
    return found


def _shown(value: Any) -> str:
    if value is None:
        return "not set"
    return ", ".join(f"{each}" or "''" for each in value) if isinstance(value, list) else f"{value}"
