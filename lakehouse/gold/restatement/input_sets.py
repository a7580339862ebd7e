"""``ops/inputs``: from which ingestions, decisions and redactions a revision was made (rule R10).

A set has a name, made of what is in it, and is kept as what it adds to an older one: a revision needs to say the name
only. Sets only grow, because Bronze and what people say about it are only added to.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Collection

    from lakehouse.settings import Settings

_SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("inputs", pa.string()),
        ("adds_to", pa.string()),
        ("added", pa.list_(pa.string())),
        ("recorded_at", pa.timestamp("us", "UTC")),
    ]
)

_Set = tuple[str | None, list[str], datetime]  # the set it adds to, what it adds, and when it was recorded


class UnknownInputsError(LakehouseError):
    """A name of inputs that nothing is recorded for. Its text says what to do."""


def name_of(ids: Collection[str]) -> str:
    """The name of a set."""
    return hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()[:16]


def record(settings: Settings, source: str, ids: Collection[str], now: datetime) -> str:
    """Keep a set, once.

    :returns: its name.
    """
    name = name_of(ids)
    sets = _recorded(settings, source)
    if name in sets:
        return name
    wanted = set(ids)
    newest = max((at for _, _, at in sets.values()), default=None)
    known = {other: _resolved(sets, other) for other, (_, _, at) in sets.items() if at == newest}
    base = max((other for other, held in known.items() if held <= wanted), key=lambda other: len(known[other]), default=None)
    added = sorted(wanted - (known[base] if base is not None else set()))
    row = {"source": source, "inputs": name, "adds_to": base, "added": added, "recorded_at": now}
    table = pa.Table.from_pylist([row], schema=_SCHEMA)
    table_io.append(
        locations.input_sets(settings),
        table,
        options=settings.storage_options,
        partition_by=["source"],
        app_id=f"inputs:{source}:{name}",
    )
    return name


def ids_of(settings: Settings, source: str, name: str) -> set[str]:
    """What is in a set.

    :raises UnknownInputsError: where it was never recorded.
    """
    sets = _recorded(settings, source)
    if name not in sets:
        msg = (
            f"nothing is recorded about the inputs {name} of {source}: the row of "
            f"{locations.input_sets(settings)} is gone, and only the "
            "newest state can be made again (materialize the period)"
        )
        raise UnknownInputsError(msg)
    return _resolved(sets, name)


def _recorded(settings: Settings, source: str) -> dict[str, _Set]:
    columns = ["inputs", "adds_to", "added", "recorded_at"]
    found = table_io.read(locations.input_sets(settings), columns, {"source": [source]}, settings.storage_options)
    return {
        row["inputs"]: (row["adds_to"], row["added"], row["recorded_at"]) for row in ([] if found is None else found.to_pylist())
    }


def _resolved(sets: dict[str, _Set], name: str) -> set[str]:
    ids: set[str] = set()
    step: str | None = name
    while step is not None:
        step, added, _ = sets[step]
        ids.update(added)
    return ids
