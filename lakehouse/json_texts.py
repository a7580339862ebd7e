"""Values of columns as JSON without loss: decimals, times, NaN and infinities become strings.

:func:`json_texts` formats a whole column; where Arrow cannot format a value, each distinct one is formatted once.
"""

from __future__ import annotations

import json
from datetime import date
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.text import json_value

if TYPE_CHECKING:
    from collections.abc import Callable

NULL = "null"
#: Characters that JSON escapes in a string; others stay as they are.
_ESCAPED = r'[\x00-\x1f"\\]'
#: Python writes smaller numbers with an exponent.
_LEAST_WITHOUT_EXPONENT = 1e-4
_JSON = json.JSONEncoder(ensure_ascii=False)


def json_text(value: Any) -> str:
    """One value as JSON."""
    if value is None:
        return NULL
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, date):  # a datetime is one, too
        return f'"{value.isoformat()}"'
    return _JSON.encode(json_value(value))


def json_texts(values: pa.Array) -> pa.Array:
    """Each value as JSON, as :func:`json_text` gives it; ``null`` for NULL, so that no text is missing."""
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        texts = values.cast(pa.string())
    elif pa.types.is_string(kind):
        texts = _with_exceptions(values, _quoted(values), pc.match_substring_regex(values, _ESCAPED))
    elif pa.types.is_decimal(kind):
        digits = values.cast(pa.string())
        texts = _with_exceptions(values, _quoted(digits), pc.match_substring(digits, "E"))  # 0E-8: 0.00000000
    elif kind == pa.float64():
        texts = _numbers(values)
    elif kind == pa.timestamp("us", "UTC"):
        texts = _moments(values)
    else:
        texts = of_distinct(values, json_text)
    return pc.fill_null(texts, NULL)


def of_distinct(values: pa.Array, text: Callable[[Any], str | None]) -> pa.Array:
    """The text of each value, computed once for each distinct value; NULL for NULL."""
    distinct, which = distinct_values(values)
    return pa.array([text(value) for value in distinct.to_pylist()], pa.string()).take(which)


def distinct_values(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The distinct values without NULL, and for each value its position among them, NULL for NULL."""
    bits = values.view(pa.int64()) if values.type == pa.float64() else values  # as numbers 0.0 and -0.0 are equal
    encoded = bits.dictionary_encode()
    return encoded.dictionary.view(values.type), encoded.indices


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _with_exceptions(values: pa.Array, texts: pa.Array, exceptions: pa.Array) -> pa.Array:
    """The texts, where the texts of exceptional values are computed individually."""
    special = pc.fill_null(exceptions, False)
    if not pc.any(special).as_py():
        return texts
    return pc.replace_with_mask(texts, special, of_distinct(values.filter(special), json_text))


def _numbers(values: pa.Array) -> pa.Array:
    """Numbers as Python writes them: Arrow writes the same digits, but 1 for 1.0, and uses the exponent for other numbers."""
    digits = values.cast(pa.string())
    points = pc.if_else(pc.match_substring(digits, "."), digits, pc.binary_join_element_wise(digits, ".0", ""))
    other = pc.or_(pc.match_substring_regex(digits, "[en]"), pc.less(pc.abs(values), _LEAST_WITHOUT_EXPONENT))
    return _with_exceptions(values, points, other)


def _moments(values: pa.Array) -> pa.Array:
    """Times in UTC as ISO texts, without microseconds where they are 0."""
    texts = pc.utf8_replace_slice(values.cast(pa.timestamp("us")).cast(pa.string()), 10, 11, "T")
    whole = pc.equal(pc.utf8_slice_codeunits(texts, 19, 26), ".000000")
    return _quoted(pc.binary_join_element_wise(pc.if_else(whole, pc.utf8_slice_codeunits(texts, 0, 19), texts), "+00:00", ""))
