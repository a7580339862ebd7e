"""Spark options that no other user of the machine may read: they are in a private file, not among Java's arguments.

Process arguments are visible to all users of the machine. Spark reads the file when it starts; the file is removed at the end of
this process.
"""

from __future__ import annotations

import atexit
import os
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The pattern by which Spark hides values in its own pages (``spark.redaction.regex``), session tokens, and keys of any kind.
_PRIVATE = re.compile(r"secret|password|token|access[.]?key|credential|\bkey\b|\bsas\b", re.IGNORECASE)
#: Options of file systems: each store has its own names for its secrets.
_STORES = "spark.hadoop."
#: Options whose values are arguments of Java, which may have secrets among them.
_JAVA = "JavaOptions"
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_FILE = "--properties-file"
_ASCII = 128


def split(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The public options and the private options."""
    private = {name: value for name, value in options.items() if _is_private(name, value)}
    return {name: value for name, value in options.items() if name not in private}, private


def _is_private(name: str, value: str) -> bool:
    return name.startswith(_STORES) or bool(_PRIVATE.search(f"{name} {value}" if name.endswith(_JAVA) else name))


def hidden(options: Mapping[str, str]) -> dict[str, str]:
    """The public options. The private ones are written to a file, which the next JVM started by PySpark in this process reads."""
    seen, private = split(options)
    if private:
        others = os.environ.get(_ARGUMENTS, "pyspark-shell")
        if others.startswith(_FILE):
            others = others.split(maxsplit=2)[2]
        os.environ[_ARGUMENTS] = f"{_FILE} {in_file(private)} {others}"
    return seen


def in_file(private: Mapping[str, str]) -> str:
    """The path of a file with the private options, which only this user can read."""
    return _written(tuple(sorted(private.items())))


@cache
def _written(options: tuple[tuple[str, str], ...]) -> str:
    descriptor, name = tempfile.mkstemp(prefix="lakehouse-", suffix=".properties")  # its mode is 600
    with os.fdopen(descriptor, "w", encoding="latin-1") as file:
        file.writelines(f"{key}={_escaped(value)}\n" for key, value in options)
    atexit.register(Path(name).unlink, missing_ok=True)
    return name


def _escaped(value: str) -> str:
    """Escape a value for a Java properties file: characters other than plain ASCII by their UTF-16 codes."""
    plain = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace(" ", "\\ ").replace("\t", "\\t")
    units = plain.encode("utf-16-be")
    codes = (int.from_bytes(units[place : place + 2], "big") for place in range(0, len(units), 2))
    return "".join(chr(code) if code < _ASCII else f"\\u{code:04x}" for code in codes)
