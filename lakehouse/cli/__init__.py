"""The command line. ``program`` groups the commands by task; ``console`` and ``arguments`` are shared by all commands.

A command belongs in the module ``commands`` of its capability. It parses, calls and prints; what it prints is computed elsewhere.
``models_demo`` is the demo of models, ``number_report`` the report of a number that several commands print.
"""

import atexit
import gc


def main() -> None:
    """Run the command line."""
    # To import Dagster and Arrow makes a million objects that stay. With Python's thresholds a short command spent a fifth of its
    # time on 800 collections of them, and the end of the process up to a second more.
    gc.set_threshold(100_000, 10, 10)
    atexit.register(gc.freeze)
    from lakehouse.cli import program  # noqa: PLC0415 (the commands import this package)

    program.main()
