"""Partial corrections completed: the empty fields of a correction filled from the record that it corrects. Arrow in, Arrow out.

Only a source with ``changes.corrections: partial`` has them. A field of a record has the value that the record gives; where a
correction gives none, that of the record before it in the total order of its key (R2). A record that is no correction, or that
follows a delete, begins the values of its key again. A correction that names a field (``changes.corrected_field``) and leaves it
empty empties it. Right for any set of rows that is complete for the keys it holds; ``frames.completed`` is the same for
DataFrames.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.delta.columns import ORDER
from lakehouse.dispositions.row_groups import groups, numpy_of, positions, sortable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lakehouse.contracts.source import FieldSpec, SourceContract

#: What stands between the names of several fields.
SEPARATORS = r"[\s,;|]+"
_SEPARATORS = re.compile(SEPARATORS)


def fields(contract: SourceContract) -> list[FieldSpec]:
    """The fields that a correction may leave empty: all but the key."""
    return [spec for spec in contract.typed_fields if spec.name not in contract.primary_key]


def names_of(spec: FieldSpec) -> set[str]:
    """The names by which a correction may name a field: that of the contract, and that of the file."""
    return {spec.name.lower(), spec.in_file.lower()}


def named(contract: SourceContract, text: str | None) -> set[str]:
    """The fields that a correction names; words that are no fields are left out."""
    words = {word.lower() for word in _SEPARATORS.split(text or "")} | {(text or "").strip().lower()}
    return {spec.name for spec in contract.model.fields if words & names_of(spec)}


def completed(contract: SourceContract, claims: pa.Table, rows: pa.Table) -> pa.Table:
    """Rows with the empty fields of corrections filled, in the order of their keys.

    :param claims: the claims that rows make about their own keys, in the order of their deliveries (see ``deliveries.ordered``);
        rows that make none of them are left out.
    :param rows: with silver's columns; all records of their keys that count.
    """
    place = positions(rows, claims)
    rows, claims = rows.filter(pc.is_valid(place)), claims.take(place.drop_null())
    key = groups(rows["record_key"])
    in_order = np.lexsort((*(sortable(claims[name]) for name in reversed(ORDER)), key))
    rows, key = rows.take(pa.array(in_order)), key[in_order]
    count = np.arange(len(rows))
    begins = np.diff(key, prepend=-1) != 0
    begins |= ~numpy_of(pc.fill_null(rows["is_correction"], False))
    begins[1:] |= numpy_of(pc.equal(rows["change_op"], "delete"))[:-1]  # a delete may have values; they are not carried on
    texts = rows["corrected_field"].dictionary_encode().combine_chunks()
    known = [named(contract, text) for text in texts.dictionary.to_pylist()]
    for spec in fields(contract):
        emptied = _are_among(texts.indices, [number for number, of_text in enumerate(known) if spec.name in of_text])
        gives = begins | emptied | numpy_of(pc.is_valid(rows[spec.name]))
        source = np.maximum.accumulate(np.where(gives, count, 0)) if len(count) else count
        column = rows.column_names.index(spec.name)
        rows = rows.set_column(column, rows.schema.field(spec.name), rows[spec.name].take(pa.array(source)))
    return rows


def _are_among(indices: pa.Array, numbers: list[int]) -> NDArray[np.bool_]:
    among: NDArray[np.bool_] = numpy_of(pc.fill_null(pc.is_in(indices, value_set=pa.array(numbers, indices.type)), False))
    return among
