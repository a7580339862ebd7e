"""The commit of a Git repository from which contracts and code come: a name for people, next to the hashes of ``provenance``.

The setting ``code_commit`` names it where no repository is deployed, as in an image. A hash decides whether two contracts are the
same; the commit tells a person where to look.
"""

from __future__ import annotations

import subprocess
import time
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.lake import Lake

_LENGTH = 12
_SECONDS = 10
#: At the end of the commit of a folder with changes that are not committed.
MODIFIED = "+modified"


def of_contracts(lake: Lake) -> str | None:
    """The commit of the folder of contracts; None without such a folder, or if it is in no repository."""
    return of_folder(lake, lake.settings.contracts)


def of_folder(lake: Lake, folder: Path) -> str | None:
    """The commit of ``folder`` as it is checked out, with :data:`MODIFIED` if files in it differ; None if it is not known."""
    if lake.settings.code_commit:
        return lake.settings.code_commit
    return _of_folder(str(folder.absolute()), int(time.monotonic() // _SECONDS)) if folder.is_dir() else None


@lru_cache(maxsize=16)
def _of_folder(folder: str, _: int) -> str | None:
    """The answer is kept for a few seconds, because a run publishes many times."""
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return None
    return commit[:_LENGTH] + (MODIFIED if _git(folder, "status", "--porcelain", "--", ".") else "")


def _git(folder: str, *words: str) -> str | None:
    """What git prints about a folder; None if git is missing or the folder is in no repository."""
    command = ["git", "-C", folder, *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
