"""The JVM's error stream while a session starts, without the lines that are irrelevant to users."""

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
#: Lines that Spark writes at every start.
_USUAL = re.compile(rb"WARNING: Using incubator modules: |Using Spark's default log4j profile: |Setting default log level to ")


@contextmanager
def without_usual_lines() -> Iterator[None]:
    """Suppress the usual start-up lines of a JVM started within the context; all other lines go to the error stream.

    With this module's logger at DEBUG, nothing is suppressed.
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
    """Pass lines on until the last process that writes to the pipe has ended."""
    with os.fdopen(reading, "rb") as lines, os.fdopen(writing, "wb", buffering=0) as output:
        for line in lines:
            if not _USUAL.match(line):
                output.write(line)
