"""The contract of a dimension: how changes become intervals, and which contract keys a dimension excludes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from lakehouse.contracts.base import Strict
from lakehouse.contracts.changes.marking import Changes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.contracts.source import SourceContract

Kind = Literal["event", "dimension"]
#: The columns of a change, as (name, Spark type): whether the key ends with it, and the end that it names itself.
OF_A_CHANGE = (("key_ends", "boolean"), ("ends_at", "timestamp"))
#: The columns of a dimension's tables besides those of every source; no field may have one of these names.
COLUMNS = (*(name for name, _ in OF_A_CHANGE), "bucket", "dimension_key", "valid_from", "valid_to", "is_current")


class Dimension(Strict):
    """The rules by which the changes of a key become intervals of validity."""

    untracked: list[str] = Field(
        default_factory=list,
        description="Fields whose newest value holds in every interval of the key; a change of them opens no interval.",
    )
    valid_to: str | None = Field(
        None, description="Column (as in the file) with the time at which a change ends, unless another change begins earlier."
    )
    buckets: int = Field(16, ge=1, le=4096, description="Into how many partitions, by key, the intervals are divided.")


def mistakes(contract: SourceContract) -> Iterator[str]:
    """The parts of a contract that its kind excludes, each as ``key: sentence``."""
    if contract.is_dimension:
        yield from _excluded_by_dimension(contract)
        yield from _wrong_fields(contract)
        yield from _words_of_two_meanings(contract.changes)
        return
    if contract.dimension != Dimension():
        yield "dimension: only a source with 'kind: dimension' has this section; set the kind, or leave the section out"
    if contract.changes.retract_words != Changes().retract_words:
        yield "changes.retract_words: only a source with 'kind: dimension' has them; the words for a delete are delete_words"


def _excluded_by_dimension(contract: SourceContract) -> Iterator[str]:
    policy = contract.materialization.reprocess_policy
    if policy != "merge":
        yield f"materialization.reprocess_policy: a dimension needs 'merge'; under {policy} a change could not be corrected"
    if contract.synthetic_key:
        yield "synthetic_key: a dimension needs a primary_key, by which facts refer to it"
    if contract.changes.corrects_event_id:
        yield (
            "changes.corrects_event_id: a change of a dimension is corrected by a later record about the same key and event "
            "time; leave the key out"
        )


def _wrong_fields(contract: SourceContract) -> Iterator[str]:
    names = [field.name for field in contract.typed_fields]
    taken = sorted({*names} & {*COLUMNS})
    if taken:
        yield f"model.fields: a dimension fills {', '.join(taken)} itself; give the field another name and set 'column:'"
    unknown = [name for name in contract.dimension.untracked if name not in names]
    if unknown:
        yield f"dimension.untracked: not among model.fields: {', '.join(unknown)}"
    in_key = [name for name in contract.dimension.untracked if name in contract.primary_key]
    if in_key:
        yield f"dimension.untracked: {', '.join(in_key)} is part of the primary key, which never changes; leave it out"


def _words_of_two_meanings(changes: Changes) -> Iterator[str]:
    others = {word.lower() for word in (*changes.insert_words, *changes.correct_words, *changes.delete_words)}
    both = sorted({word.lower() for word in changes.retract_words} & others)
    if both:
        yield f"changes.retract_words: these words have two meanings: {', '.join(both)}; give each list its own"
