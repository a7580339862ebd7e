"""Columns of texts as typed values, and the keys of many records as text: the rules of ``type_conversion`` and ``row_parser``.

The result states for which values it is certain to equal that of ``type_conversion`` for a value, and of
``row_parser.record_key``, ``change_key`` and ``synthetic_key`` for a record.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.bronze.type_conversion import null_numbers, typed_text
from lakehouse.delta.columns import arrow_type

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from lakehouse.contracts.source_rules import SyntheticKey


_LEAP = r"(?:(?:19|20)(?:0[48]|[2468][048]|[13579][26])|2000)-02-29"
_DAYS = r"(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31"
_DATE = f"(?:(?:19|20)[0-9]{{2}}-(?:{_DAYS})|{_LEAP})"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_ZONE = r"(?:Z|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])"
_PLAIN = {
    "int": r"-?[0-9]{1,9}",
    "bigint": r"-?[0-9]{1,18}",
    "double": r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?(?:[eE][+-]?[0-9]{1,2})?",
    "date": _DATE,
    "timestamp": f"{_DATE}[T ]{_TIME}{_ZONE}",
}
_INTEGERS = ("int", "bigint")
_TRUE = pa.array(["true", "t", "1", "yes", "y"])
_BOOLEAN = pa.array([*_TRUE.to_pylist(), "false", "f", "0", "no", "n"])


class Converted(NamedTuple):
    """Typed values, and where they are certain; a value is null where the text is, and where it is not certain."""

    values: pa.Array
    certain: pa.BooleanArray


def convert(texts: pa.StringArray, spark_type: str) -> Converted:
    """The texts as values of a column type; a null is certain to be a null."""
    if spark_type == "string":
        return Converted(texts, everywhere(len(texts)))
    if spark_type == "boolean":
        words = pc.ascii_lower(texts)
        certain = pc.or_(pc.is_null(texts), pc.is_in(words, _BOOLEAN))
        return Converted(pc.if_else(pc.and_(certain, pc.is_valid(texts)), pc.is_in(words, _TRUE), None), certain)
    certain = pc.fill_null(pc.match_substring_regex(texts, _plain(spark_type)), True)
    if spark_type in _INTEGERS and not pc.all(certain, min_count=0).as_py():
        texts = pc.replace_substring_regex(texts, r"^(-?[0-9]{1,15})\.(?:0|00|0000+)$", r"\1")
        certain = pc.fill_null(pc.match_substring_regex(texts, _plain(spark_type)), True)
    plain = texts if pc.all(certain, min_count=0).as_py() else pc.if_else(certain, texts, None)
    return Converted(pc.cast(plain, arrow_type(spark_type)), certain)


def everywhere(rows: int) -> pa.BooleanArray:
    """True for each row."""
    return pa.repeat(pa.scalar(True), rows)


def without_words(texts: pa.StringArray, words: Iterable[str]) -> pa.StringArray:
    """The texts, with null for those that are among ``words``."""
    nulls = pa.array(sorted(set(words)), pa.string())
    if not len(nulls):
        return texts
    is_null = pc.equal(texts, nulls[0]) if len(nulls) == 1 else pc.is_in(texts, nulls)
    return pc.if_else(is_null, None, texts) if pc.any(is_null).as_py() else texts


def without_numbers(texts: pa.StringArray, words: Collection[str]) -> pa.StringArray:
    """The texts of numbers, with null for those that equal a number among ``words``."""
    numbers = pa.array([format(number.normalize(), "f") for number in null_numbers(words)], pa.string())
    if not len(numbers):
        return texts
    plain = pc.replace_substring_regex(pc.replace_substring_regex(texts, r"\.0+$", ""), r"(\.[0-9]*[1-9])0+$", r"\1")
    return pc.if_else(pc.is_in(pc.replace_substring_regex(plain, "^-0$", "0"), numbers), None, texts)


@lru_cache(maxsize=64)
def _plain(spark_type: str) -> str:
    """The regular expression of the type's plain texts."""
    if not spark_type.startswith("decimal"):
        return f"^{_PLAIN[spark_type]}$"
    precision, scale = (int(part) for part in re.findall(r"\d+", spark_type))
    decimals = rf"\.[0-9]{{1,{scale}}}"
    if precision == scale:
        return f"^-?0{decimals}$"
    return rf"^-?[0-9]{{1,{precision - scale}}}(?:{decimals})?$" if scale else rf"^-?[0-9]{{1,{precision}}}$"


#: The characters that JSON escapes with a backslash.
_ESCAPED = r'["\\\x00-\x1f]'
#: Decimals with more decimal places may be written with an exponent.
PLAIN_SCALE = 6


def record_keys(values: Sequence[pa.Array]) -> Converted:
    """The key of each record: the value itself, or a JSON list if the key has several columns; null if a value is null."""
    texts = [_key_texts(column) for column in values]
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
    texts = [_key_texts(fields[name]) for name in recipe.fields]
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


def _key_texts(values: pa.Array) -> pa.StringArray:
    """Typed values as ``type_conversion.key_text`` writes them."""
    return as_texts(pc.add(values, 0.0) if pa.types.is_floating(values.type) else values)


def unescaped(texts: pa.StringArray) -> pa.BooleanArray:
    return pc.fill_null(pc.invert(pc.match_substring_regex(texts, _ESCAPED)), fill_value=True)


def _json_list(texts: Sequence[pa.StringArray]) -> pa.StringArray:
    return _between_brackets([quoted(column) for column in texts])


def quoted(texts: pa.StringArray) -> pa.StringArray:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _between_brackets(parts: Sequence[pa.StringArray]) -> pa.StringArray:
    return pc.binary_join_element_wise("[", pc.binary_join_element_wise(*parts, ","), "]", "")
