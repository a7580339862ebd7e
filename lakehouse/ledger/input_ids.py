"""The ids of silver's inputs other than files: decisions, redactions and rebuild requests; and of files that were delivered
again.

An id is the kind of the input, a colon and a hash of its content, so that writing the same input again gives the same id. The id
of an ingestion has no kind (see ``ingestions``).
"""

from __future__ import annotations

import hashlib
from enum import Enum

_REDELIVERY = "redelivery:"


class InputKind(str, Enum):
    """The kinds of inputs that a person adds to a source; the values are part of stored ids."""

    DECISION = "decision"
    REDACTION = "redaction"
    REBUILD_REQUEST = "operation"
    LATE_DECISION = "late"

    @property
    def prefix(self) -> str:
        """The prefix of the ids of this kind."""
        return f"{self.value}:"

    def id_of(self, content: str) -> str:
        """The id of an input of this kind.

        :param content: a text that is equal for two inputs only if they are the same input.
        """
        return self.prefix + hashlib.sha256(content.encode()).hexdigest()[:16]

    def is_kind_of(self, input_id: str) -> bool:
        """Whether ``input_id`` is an id of this kind."""
        return input_id.startswith(self.prefix)


def of_content(content_hash: str) -> str:
    """The id of a file's content in the tables: 64 bits of its hash."""
    return content_hash[:16]


def is_manual_input(input_id: str) -> bool:
    """Whether ``input_id`` belongs to a decision, a redaction or a rebuild request, and not to a delivered file."""
    return any(kind.is_kind_of(input_id) for kind in InputKind)


def is_redelivery(input_id: str) -> bool:
    """Whether ``input_id`` belongs to a file that was delivered again."""
    return input_id.startswith(_REDELIVERY)


def of_redelivery(content: str) -> str:
    """The id of a file that was delivered again and counts again, see ``ingestions.inputs``."""
    return f"{_REDELIVERY}{hashlib.sha256(content.encode()).hexdigest()[:16]}"
