"""Values as text for people, and as JSON. Plain Python; text for one kind of response or page belongs in its module."""

from __future__ import annotations

from decimal import Decimal
from difflib import get_close_matches
from math import isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime, timedelta

#: The units of :func:`format_duration` with their lengths in seconds; it shows the greatest ones that are not zero.
DURATION_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
DURATION_UNITS_SHOWN = 2


def format_duration(span: timedelta | None) -> str:
    """A duration to two units: ``8 d 2 h``, ``45 min``; ``0 s`` for None."""
    seconds = int(span.total_seconds()) if span else 0
    parts = []
    for unit, length in DURATION_UNITS:
        count, seconds = divmod(seconds, length)
        if count:
            parts.append(f"{count:,} {unit}")
    return " ".join(parts[:DURATION_UNITS_SHOWN]) or "0 s"


def format_moment(moment: datetime) -> str:
    """A time to the minute, in UTC: ``2024-01-15 06:00 UTC``."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def join_limited(names: Sequence[str], limit: int, noun: str = "") -> str:
    """The first names, and the number of further ones: ``a, b and 3 more files``.

    :param limit: the number of names listed.
    :param noun: the noun for the names, with a leading space.
    """
    more = f" and {len(names) - limit:,} more{noun}" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def suggestion(word: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """The known name most similar to an unknown one, as the end of a sentence: `` (did you mean 'amount'?)``, or nothing.

    :param likeness: the least similarity that counts, from 0 to 1.
    """
    near = get_close_matches(word.lower(), list(known), 1, likeness)
    return f" (did you mean {near[0]!r}?)" if near else ""


#: The names of bounds in JSON and in metadata, each with its earlier name, which is deprecated and stays for one release.
EARLIER_NAMES = {
    "cutoff_seconds": "watermark_seconds",
    "grace_seconds": "allowed_lateness_seconds",
    "beyond_cutoff": "beyond_watermark",
}


def with_earlier_names(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of JSON, or of metadata, in which a renamed one also stands under its earlier name."""
    named: dict[str, Any] = {}
    for name, value in fields.items():
        named[name] = value
        if name in EARLIER_NAMES:
            named[EARLIER_NAMES[name]] = value
    return named


def json_value(value: Any) -> Any:
    """A value for JSON: a decimal becomes text, so that no reader rounds it; an infinity and NaN become text as well."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float) and not isfinite(value):
        return f"{value}"
    return value
