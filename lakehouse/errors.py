"""The base of every error that is reported to people by its text alone, without a stack trace.

Each subclass is defined where it is raised. Errors of the programming language or of a library that nobody expected
do not belong here: the command line gives their first line, and with ``--debug`` their stack trace.
"""

from typing import ClassVar


class LakehouseError(Exception):
    """An expected problem; its text describes what happened, where, and what to do about it."""

    #: Whether the same command may succeed later although nobody has changed anything.
    passes_by_itself: ClassVar[bool] = False
