"""One Spark for all workers of a test run: a Connect server that the first test that needs Spark starts, and the run ends.

A JVM of its own costs each worker a start, and the compilation of the same code again. With the address of a server in
``LAKEHOUSE_TEST_SPARK`` a run uses that one, and leaves it running. With ``own`` each process starts a Spark of its own, which a
stream needs (tests marked ``own_spark``).
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from lakehouse.lake import Lake
from lakehouse.settings import Settings
from lakehouse_tests.support.free_port import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The address of a server for the tests of a run, or ``own``.
ADDRESS = "LAKEHOUSE_TEST_SPARK"
_OWN = "own"
CHECKOUT = Path(__file__).parents[2]
_SECONDS_TO_START = 120.0


def is_own() -> bool:
    """Whether each process of this run has a Spark of its own."""
    return os.environ.get(ADDRESS) == _OWN


def driver_options(memory: str = "2g") -> dict[str, str]:
    """Those of a session of the product, in a JVM that is left with C1: what C2 compiles costs more than it saves in minutes."""
    from lakehouse.spark.session import local_options  # noqa: PLC0415 (unit tests start without pyspark)

    options = local_options(Lake(Settings(spark_long_lived=True, spark_memory=memory)))
    options["spark.driver.extraJavaOptions"] += " -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
    return options


def address(folder: Path) -> str:
    """The address of the server of this run, which is started if it is not there.

    :param folder: one folder for all workers of the run; its server ends with it.
    """
    given = os.environ.get(ADDRESS)
    if given:
        return given
    from lakehouse.spark import connect  # noqa: PLC0415

    with FileLock(folder / "start.lock"):
        running = connect.recorded_server(folder)
        if running is None:
            # Functions that tests pass to Spark are looked up in the modules of the tests.
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH")]))
            running, _ = connect.start(folder, driver_options("4g"), free_port(), _SECONDS_TO_START)
        return running.address


@contextmanager
def started(folder: Path | None = None) -> Iterator[str]:
    """A server for several runs; :data:`ADDRESS` in their environment makes them use it."""
    from lakehouse.spark import connect  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as own:
        place = folder or Path(own)
        try:
            yield address(place)
        finally:
            connect.stop(place)
