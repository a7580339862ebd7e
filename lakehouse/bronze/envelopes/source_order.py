"""The source's own order of changes as two columns that every engine compares alike: ``source_sequence`` and ``source_order``.

A leading integer is ``source_sequence``. The parts after it are one text in ``source_order``, whose order by UTF-8 bytes is that
of the parts; an order that is one integer leaves it NULL. The envelope or the contract decides which parts a record has.
"""

from __future__ import annotations

from collections.abc import Sequence

#: An integer or a text for each column of the order, the most significant first.
Parts = Sequence[int | str]
#: Ends a part. It comes before every character that a part may hold, so that a shorter text comes before its continuations.
_END = "\x1f"
#: Greater than every 64-bit integer, so that a sum with it has 20 digits or, for a negative one, 19.
_OFFSET = 10**19


def encoded(parts: Parts) -> tuple[int, str | None]:
    """The columns ``source_sequence`` and ``source_order``.

    :param parts: integers of 64 bits, and texts from :func:`order_text`.
    """
    leading, rest = (parts[0], parts[1:]) if parts and isinstance(parts[0], int) else (0, parts)
    return int(leading), _END.join(map(_encoded_part, rest)) if rest else None


def order_text(value: str) -> str:
    """A text as a part of an order.

    :raises ValueError: when it is empty, or holds a control character.
    """
    if not value or min(value) <= _END:
        msg = f"{value[:60]!r} holds a control character, which has no place in an order" if value else "empty"
        raise ValueError(msg)
    return value


def _encoded_part(part: int | str) -> str:
    return f"{part + _OFFSET:020d}" if isinstance(part, int) else part
