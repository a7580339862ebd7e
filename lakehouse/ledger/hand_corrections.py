"""Deliveries that enter a correction by a person (``lakehouse correct``), as the name of their file tells.

Belongs here: the name. Proposing, approving and entering corrections belongs to ``operations.corrections``. The name is in Bronze
with each row, so that what follows from it can be computed again from there.
"""

from __future__ import annotations

import re

_BY_HAND = re.compile(r"(?:^|[./])correction-[0-9a-f]{12}[.]")


def file_name(correction_id: str, ending: str) -> str:
    """The name of the file with a correction; the landing folder may put that of the arrival day before it.

    :param ending: such as ``.csv``.
    """
    return f"correction-{correction_id}{ending}"


def is_by_hand(source_file: str) -> bool:
    """Whether a delivered file enters a correction by a person."""
    return _BY_HAND.search(source_file) is not None
