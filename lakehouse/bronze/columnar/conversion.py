"""Converts a column of texts to typed values, and states for which of them the result is certain.

A text is certain if it has a plain form, on which Arrow and ``type_conversion`` are known to agree. All other texts, whether
faulty or only unusual, are left to ``type_conversion``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.bronze.type_conversion import null_numbers
from lakehouse.delta.columns import arrow_type

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

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
