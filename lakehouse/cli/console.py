"""Where the command line prints, and which problems it reports without a stack trace."""

from __future__ import annotations

from rich.console import Console

out = Console(highlight=False)
errors = Console(stderr=True)


def KNOWN_PROBLEMS() -> tuple[type[Exception], ...]:  # noqa: N802 (used as a constant)
    """Problems whose text already says what happened, where, and what to do."""
    from lakehouse.orchestration.replay import RunFailedError  # noqa: PLC0415
    from lakehouse.tables.apply import IncompleteKeyLogError  # noqa: PLC0415
    from lakehouse.tables.jars import SetupProblem  # noqa: PLC0415

    return (RunFailedError, IncompleteKeyLogError, SetupProblem)
