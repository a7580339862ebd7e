"""The inputs of a number other than those of its (first) source: the column ``dimension_inputs``, written and read only here.

It names the inputs of each further source and of each dimension that the metric joins.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def text(by_name: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The value as it is stored; None without any."""
    return json.dumps(by_name, sort_keys=True) if by_name else None


def parse(stored: str | None) -> dict[str, dict[str, Any]]:
    """The ``inputs``, ``without`` and ``contract`` that a revision names, by further source and dimension; empty if there are
    none.
    """
    return dict(json.loads(stored or "{}"))
