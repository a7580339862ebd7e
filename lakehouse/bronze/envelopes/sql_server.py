"""The rows of SQL Server's change tables: the columns of the table, with ``__$operation``, ``__$start_lsn`` and ``__$seqval``.

An update is two rows, the row before it and the row after it. The row before it ends its key, directly before the row after it
begins the key again or begins another one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lakehouse.bronze.envelopes.change import Change, Op, hexadecimal, integer

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_OPS: dict[int, Op] = {1: "delete", 2: "insert", 3: "delete", 4: "correct"}
_LSN = re.compile(r"[0-9a-f]{20}")
_WANTED = "20 hexadecimal digits"


def unfold(values: Mapping[str, Any], _: Collection[str]) -> Change:
    """The change in a row of a change table.

    :raises ValueError: when one of the three columns has no valid value; the message names the column.
    """
    operation = integer("__$operation", values.get("__$operation"))
    if operation not in _OPS:
        raise ValueError(f"__$operation: {operation} is none of {', '.join(map(str, _OPS))}")
    order = [hexadecimal(name, values.get(name), _LSN, _WANTED) for name in ("__$start_lsn", "__$seqval")]
    return Change(_OPS[operation], values, [*order, str(operation)])
