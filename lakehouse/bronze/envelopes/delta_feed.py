"""The change feed of a Delta table: the columns of the table, with ``_change_type`` and ``_commit_version``.

A commit has no order of its own: rows that it removes come before rows that it adds. An update is two rows, the row before it and
the row after it; the row before it ends its key, directly before the row after it begins the key again or begins another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.bronze.envelopes.change import Change, Op, integer, required

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_OPS: dict[str, Op] = {"insert": "insert", "update_preimage": "delete", "update_postimage": "correct", "delete": "delete"}


def unfold(values: Mapping[str, Any], _: Collection[str]) -> Change:
    """The change in a row of a change feed.

    :raises ValueError: when one of the two columns has no valid value; the message names the column.
    """
    kind = str(required("_change_type", values.get("_change_type")))
    if kind not in _OPS:
        raise ValueError(f"_change_type: {kind[:60]!r} is none of {', '.join(_OPS)}")
    op = _OPS[kind]
    return Change(op, values, [integer("_commit_version", values.get("_commit_version")), "0" if op == "delete" else "1"])
