"""One change of a row, extracted from its envelope, and helpers that the envelopes share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lakehouse.bronze.type_conversion import to_integer

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

    from lakehouse.bronze.envelopes.source_order import Parts

Op = Literal["insert", "correct", "delete"]


@dataclass(frozen=True)
class Change:
    """A change of a row.

    ``row`` has its columns: after the change, or before a delete. ``order`` is its place among the changes of the source.
    ``former`` has the columns of the row before the change as far as the envelope holds them: if they have another key, that key
    ends.
    """

    op: Op
    row: Mapping[str, Any]
    order: Parts
    former: Mapping[str, Any] | None = None


def required(name: str, value: Any) -> Any:
    """The value of a field of the envelope.

    :raises ValueError: when it is missing or empty.
    """
    if value is None or value == "":
        msg = f"{name}: missing from the envelope"
        raise ValueError(msg)
    return value


def integer(name: str, value: Any) -> int:
    """:raises ValueError: when it is missing, or no 64-bit integer."""
    try:
        return to_integer(required(name, value))
    except ValueError as error:
        raise ValueError(_named(name, error)) from None


def hexadecimal(name: str, value: Any, form: re.Pattern[str], wanted: str) -> str:
    """A number of a fixed width, in lower case, so that its text has its order.

    :param form: the form of the lower-case text without ``0x``; ``wanted`` describes it.
    :raises ValueError: when it is missing, or has another form.
    """
    text = str(required(name, value)).strip().lower().removeprefix("0x")
    if not form.fullmatch(text):
        msg = f"{name}: {str(value)[:60]!r} is not {wanted}"
        raise ValueError(msg)
    return text


def _named(name: str, error: ValueError) -> str:
    return str(error) if str(error).startswith(f"{name}: ") else f"{name}: {error}"
