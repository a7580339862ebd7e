"""The command line as people run it, in processes that need not import its libraries again.

A server per worker imports them once and is forked for each command, so that a command costs what it does itself. The process of
a command has everything of its own: folder, environment, output, modules of the command line, exit code. Acceptance tests use
``cli``, which starts the real program.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse_tests.support.cli import environment_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from multiprocessing.context import ForkServerContext

#: What commands import. Nothing of the command line itself: its consoles take the width from the environment when it is imported.
_LIBRARIES = [
    *("pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet", "deltalake", "numpy", "pandas", "yaml", "duckdb"),
    *("pydantic", "pydantic_settings", "typer", "rich.console", "rich.table", "rich.progress", "tenacity"),
    *("dagster", "pyspark.sql", "lakehouse.contracts", "lakehouse.orchestration.build"),
]


def lakehouse_command(
    folder: Path, *arguments: str, before: Callable[[], None] | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run ``lakehouse`` in ``folder``, with its lake in ``folder / "lake"``.

    :param before: called in the process of the command, in its folder and environment; a function of a module.
    """
    with tempfile.TemporaryDirectory() as printed:
        paths = [Path(printed, name) for name in ("stdout", "stderr")]
        process = _server().Process(target=_run, args=(folder, arguments, environment_of(folder, environment), *paths, before))
        process.start()
        process.join()
        stdout, stderr = (path.read_text() if path.exists() else "" for path in paths)
    assert process.exitcode is not None
    return subprocess.CompletedProcess(["lakehouse", *arguments], process.exitcode, stdout, stderr)


@cache
def _server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_LIBRARIES)
    return context


def _run(
    folder: Path,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    stdout: Path,
    stderr: Path,
    before: Callable[[], None] | None,
) -> None:
    """A command, in a process of its own; how it ends is the process's exit code."""
    for number, path in ((1, stdout), (2, stderr)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    sys.stdout, sys.stderr = (open(number, "w", closefd=False, encoding="utf-8") for number in (1, 2))  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["lakehouse", *arguments]
    if before is not None:
        before()
    from lakehouse.cli import program as cli  # noqa: PLC0415 (with the environment of this command)

    try:
        cli.main()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
