"""The keys of many records as text: the rules of ``row_parser.record_key``, ``change_key`` and ``synthetic_key`` for columns."""

from __future__ import annotations

import hashlib
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.bronze.columnar.conversion import Converted, everywhere
from lakehouse.bronze.type_conversion import typed_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakehouse.contracts.source_rules import SyntheticKey

#: The characters that JSON escapes with a backslash.
_ESCAPED = r'["\\\x00-\x1f]'
#: Decimals with more decimal places may be written with an exponent.
PLAIN_SCALE = 6


def record_keys(values: Sequence[pa.Array]) -> Converted:
    """The key of each record: the value itself, or a JSON list if the key has several columns; null if a value is null."""
    texts = [as_texts(column) for column in values]
    if len(texts) == 1:
        return Converted(texts[0], everywhere(len(texts[0])))
    certain = reduce(pc.and_, (unescaped(column) for column in texts))
    return Converted(_json_list(texts), certain)


def change_keys(values: Sequence[pa.Array], moments: pa.TimestampArray) -> Converted:
    """The key of each change of a dimension; null if a value or its event time is null.

    :param moments: of microseconds, in UTC.
    """
    return record_keys([*values, pc.strftime(moments, "%Y-%m-%dT%H:%M:%SZ")])


def synthetic_keys(recipe: SyntheticKey, fields: Mapping[str, pa.Array], event_ts: pa.Array, event_date: pa.Array) -> Converted:
    """The key of each record without one; not certain for a record that lacks the event time which the recipe needs."""
    texts = [as_texts(fields[name]) for name in recipe.fields]
    certain = reduce(pc.and_, (unescaped(column) for column in texts))
    parts = [pc.if_else(pc.is_null(column), "null", quoted(column)) for column in texts]
    if recipe.window is not None:
        certain = pc.and_(certain, pc.is_valid(event_date))
        moments = pc.coalesce(event_ts, pc.cast(pc.cast(event_date, pa.timestamp("us")), event_ts.type))
        micros = pc.cast(pc.fill_null(moments, 0), pa.int64()).to_numpy()
        window = recipe.window // type(recipe.window)(microseconds=1)
        parts.append(quoted(pc.cast(pa.array(micros // window), pa.string())))
    recipes = _between_brackets(parts).to_pylist()
    hashes = [None if text is None else hashlib.sha256(text.encode()).hexdigest()[:32] for text in recipes]
    return Converted(pa.array(hashes, pa.string()), certain)


def as_texts(values: pa.Array) -> pa.StringArray:
    """Typed values as ``type_conversion.typed_text`` writes them."""
    kind = values.type
    if pa.types.is_string(kind):
        return values
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date32(kind):
        return pc.cast(values, pa.string())
    if pa.types.is_decimal(kind) and kind.scale <= PLAIN_SCALE:
        return pc.cast(values, pa.string())
    return pa.array([None if value is None else typed_text(value) for value in values.to_pylist()], pa.string())


def unescaped(texts: pa.StringArray) -> pa.BooleanArray:
    return pc.fill_null(pc.invert(pc.match_substring_regex(texts, _ESCAPED)), fill_value=True)


def _json_list(texts: Sequence[pa.StringArray]) -> pa.StringArray:
    return _between_brackets([quoted(column) for column in texts])


def quoted(texts: pa.StringArray) -> pa.StringArray:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _between_brackets(parts: Sequence[pa.StringArray]) -> pa.StringArray:
    return pc.binary_join_element_wise("[", pc.binary_join_element_wise(*parts, ","), "]", "")
