"""The file names of deliveries by which a person enters a correction (``lakehouse correct``).

Belongs here: the name. Proposing, approving and entering corrections belongs to ``operations.changes``. Bronze stores the
name with each row, so that everything that depends on it can be computed again from Bronze.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow.compute as pc

if TYPE_CHECKING:
    import pyarrow as pa

_BY_HAND = re.compile(r"(?:^|[./])correction-[0-9a-f]{12}[.]")


def file_name(correction_id: str, ending: str) -> str:
    """The name of the file with a correction; the landing folder may prefix it with the arrival day.

    :param ending: such as ``.csv``.
    """
    return f"correction-{correction_id}{ending}"


def is_by_hand(source_file: str) -> bool:
    """Whether a delivered file contains a correction that a person entered."""
    return _BY_HAND.search(source_file) is not None


def are_by_hand(source_files: pa.ChunkedArray) -> pa.ChunkedArray:
    """The Arrow form of :func:`is_by_hand`; never NULL."""
    return pc.fill_null(pc.match_substring_regex(source_files.cast("string"), _BY_HAND.pattern), False)
