"""What a JVM writes to the error stream while a session starts: all of it but the lines that say nothing to a user."""

from __future__ import annotations

import logging
import os
import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_log = logging.getLogger(__name__)
_STDERR = 2
#: Lines that every start of Spark writes.
_USUAL = re.compile(rb"WARNING: Using incubator modules: |Using Spark's default log4j profile: |Setting default log level to ")


@contextmanager
def without_usual_lines() -> Iterator[None]:
    """A JVM that is started within the context writes the usual lines of a start nowhere, and all others where it would have.

    The logger of this module at DEBUG shows them.
    """
    if _log.isEnabledFor(logging.DEBUG):
        yield
        return
    before = os.dup(_STDERR)
    reading, writing = os.pipe()
    os.dup2(writing, _STDERR)
    os.close(writing)
    threading.Thread(target=_pass_on, args=(reading, before), name="jvm-output", daemon=True).start()
    try:
        yield
    finally:
        os.dup2(before, _STDERR)


def _pass_on(reading: int, writing: int) -> None:
    """Pass lines on until the last process that writes them has ended."""
    with os.fdopen(reading, "rb") as lines, os.fdopen(writing, "wb", buffering=0) as output:
        for line in lines:
            if not _USUAL.match(line):
                output.write(line)
