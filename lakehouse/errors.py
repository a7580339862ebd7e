"""The base of every error that is reported to people by its message alone, without a stack trace.

Each subclass is defined where it is raised. Unexpected errors of the programming language or of a library do not belong here: the
command line shows their first line, and with ``--debug`` their stack trace.
"""

from typing import ClassVar


class LakehouseError(Exception):
    """An expected problem; its message says what happened, where, and what to do about it."""

    #: Whether the same command may succeed later without any change.
    passes_by_itself: ClassVar[bool] = False
