"""Steps that are stopped after any of their commits, as a killed process is.

The steps themselves, and what must hold after a stop, are in the tests.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest

from lakehouse.delta import layout, partition_writer, row_writer
from lakehouse.dimensions.buckets import BucketTable
from lakehouse.spark import commits as spark_commits
from lakehouse_tests.support import tried


class Killed(BaseException):
    """Not an ``Exception``: no ``except Exception`` of the product handles it, as none handles SIGKILL."""


COMMITS = [
    *(
        (spark_commits, name)
        for name in ("append_alone", "append_rows_alone", "append_days_alone", "merge", "merge_rows", "replace_days")
    ),
    *((row_writer, name) for name in ("append", "append_new", "merge")),
    *((partition_writer, name) for name in ("create", "replace", "commit_without_rows", "set_properties")),
    (BucketTable, "replace"),
    (layout, "convert"),
]


def after_each_commit(monkeypatch: pytest.MonkeyPatch, then: Callable[[], object]) -> None:
    """Call ``then`` after each commit."""

    def followed(commit: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(commit)
        def replacement(*args: Any, **kwargs: Any) -> Any:
            result = commit(*args, **kwargs)
            if result is None or result:  # it wrote something
                then()
            return result

        return replacement

    for module, name in COMMITS:
        monkeypatch.setattr(module, name, followed(getattr(module, name)))


def kill_after(monkeypatch: pytest.MonkeyPatch, last: int) -> None:
    """Raise :class:`Killed` after the ``last``-th commit."""
    commits = 0

    def count() -> None:
        nonlocal commits
        commits += 1
        if commits == last:
            tried.count("kills")
            raise Killed

    after_each_commit(monkeypatch, count)


def stopped_after_each_commit(step: Callable[[], object]) -> int:
    """Stop ``step`` after its first commit, again and again, until it ends.

    :returns: the number of stops.
    """
    stops = 0
    while True:
        with pytest.MonkeyPatch.context() as patched:
            kill_after(patched, 1)
            try:
                step()
            except Killed:
                stops += 1
                assert stops < 20, "it never comes to its end"
            else:
                return stops


def stopped_behind(number: int, step: Callable[[], object]) -> bool:
    """Run a step until it has made so many commits; gives whether it was stopped."""
    with pytest.MonkeyPatch.context() as patched:
        kill_after(patched, number)
        try:
            step()
        except Killed:
            return True
    return False
