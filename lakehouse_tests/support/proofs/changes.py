"""What git says of a checkout: the commit that its code is of, and what has changed since a commit."""

from __future__ import annotations

import subprocess
from functools import cache
from typing import TYPE_CHECKING

from lakehouse_tests.support.proofs.shards import PRODUCT, TESTS

if TYPE_CHECKING:
    from pathlib import Path

#: What a result depends on. Not the shards: how proofs are grouped proves nothing.
_CODE = (PRODUCT, TESTS, "pyproject.toml", "requirements.lock", f":(exclude){TESTS}/proofs.toml")


class NoHistoryError(Exception):
    """Git does not know the checkout or the commit."""


def code_commit(root: Path) -> str:
    """The last commit that changed the code: a commit of the page of proofs leaves it as it is."""
    commit = _git(root, "log", "-1", "--format=%H", "--", *_CODE).strip()
    if not commit:
        raise NoHistoryError(f"no commit of {root} has code")
    return commit


def uncommitted(root: Path) -> list[str]:
    """Files of the code that differ from the last commit."""
    return [line[3:] for line in _git(root, "status", "--porcelain", "--untracked-files=all", "--", *_CODE).splitlines()]


@cache
def changed_files(root: Path, commit: str) -> tuple[str, ...]:
    """Files of the product that were changed since a commit, committed or not; relative to ``lakehouse``."""
    tracked = _git(root, "diff", "--name-only", commit, "--", PRODUCT).splitlines()
    untracked = _git(root, "ls-files", "--others", "--exclude-standard", "--", PRODUCT).splitlines()
    return tuple(path.removeprefix(f"{PRODUCT}/") for path in (*tracked, *untracked))


def _git(root: Path, *arguments: str) -> str:
    try:
        # quotePath=false: names are printed as they are.
        command = ["git", "-c", "core.quotePath=false", *arguments]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    except OSError as problem:
        raise NoHistoryError(f"git does not start: {problem}") from problem
    if done.returncode:
        raise NoHistoryError(done.stderr.strip())
    return done.stdout
