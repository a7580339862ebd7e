"""The join keys of facts and dimensions as text: the counterpart, for columns, of ``row_parser.record_key`` for a record."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence


#: The characters that JSON escapes with a backslash.
_ESCAPED = r'["\\\x00-\x1f]'


def texts(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    """The key of each row: the value itself, or a JSON list if the key has several columns; NULL if a value is NULL.

    :param columns: of strings, integers, booleans, days or decimals with up to six digits behind the point.
    """
    plain = [pc.cast(pa.chunked_array(column), pa.string()).combine_chunks() for column in columns]
    if len(plain) == 1:
        return plain[0]
    quoted = [pc.binary_join_element_wise('"', _escaped(column), '"', "") for column in plain]
    return pc.binary_join_element_wise("[", pc.binary_join_element_wise(*quoted, ","), "]", "")


def _escaped(values: pa.Array) -> pa.Array:
    special = pc.fill_null(pc.match_substring_regex(values, _ESCAPED), False)
    if not pc.any(special).as_py():
        return values
    written = [json.dumps(value, ensure_ascii=False)[1:-1] for value in values.filter(special).to_pylist()]
    return pc.replace_with_mask(values, special, pa.array(written, pa.string()))
