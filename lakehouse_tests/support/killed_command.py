"""The command line in a process that gets a signal right after one of its commits."""

from __future__ import annotations

import json
import os
import signal
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse_tests.support import forked_cli, tried
from lakehouse_tests.support.stopped_commits import COMMITS

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

#: The commits of a command that came to its end.
_MADE = "commits-made"


def signalled_after(commits: int, number: int = signal.SIGKILL) -> None:
    """Have this very process get a signal after so many commits of the lake in its environment; never if there are fewer."""
    root, made = Path(os.environ["LAKEHOUSE_ROOT"]), 0

    def deadly(commit: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(commit)
        def wrapped(*arguments: Any, **options: Any) -> Any:
            nonlocal made
            before = _commits_of(root)
            done = commit(*arguments, **options)
            if _commits_of(root) > before:  # not one that wrote nothing
                made += 1
                root.with_name(_MADE).write_text(f"{made}")
                if made == commits:
                    os.kill(os.getpid(), number)
            return done

        return wrapped

    for module, name in COMMITS:
        setattr(module, name, deadly(getattr(module, name)))


def _commits_of(root: Path) -> int:
    return sum(_changed_rows(commit) for commit in root.glob("*/*/_delta_log/*.json"))


def _changed_rows(commit: Path) -> bool:
    # A MERGE by Spark of which no clause fires copies the files it matched and commits that: killed after it, it would do so for
    # ever. delta-rs, whose metrics have other names, commits nothing then.
    info = next((line["commitInfo"] for line in map(json.loads, commit.open()) if "commitInfo" in line), {})
    metrics = info.get("operationMetrics", {})
    kinds = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
    return info.get("operation") != "MERGE" or kinds[0] not in metrics or any(int(metrics[kind]) for kind in kinds)


def commits_of(folder: Path, *arguments: str, **environment: str) -> tuple[int, subprocess.CompletedProcess[str]]:
    """Run a command of the lake below ``folder`` to its end; gives how many commits it made, and what it printed."""
    (folder / _MADE).unlink(missing_ok=True)
    done = forked_cli.lakehouse_command(folder, *arguments, before=_never, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return int((folder / _MADE).read_text()), done


def stopped_command(
    folder: Path, *arguments: str, commits: int, number: signal.Signals = signal.SIGKILL, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command until it has made so many commits, and give it a signal then."""
    tried.count("kills")
    chosen = {"COMMITS_TO_LIVE": f"{commits}", "SIGNAL_AFTER": f"{int(number)}"}
    return forked_cli.lakehouse_command(folder, *arguments, before=_as_chosen, **environment, **chosen)


def _never() -> None:
    signalled_after(0)


def _as_chosen() -> None:
    signalled_after(int(os.environ["COMMITS_TO_LIVE"]), int(os.environ["SIGNAL_AFTER"]))
