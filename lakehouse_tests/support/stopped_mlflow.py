"""Steps that are stopped after any of their commits to tables, and after any change of MLflow, as a killed process is."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from mlflow import MlflowClient

from lakehouse.delta import leases
from lakehouse_tests.support import stopped_commits
from lakehouse_tests.support.dead_process import dead_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: What changes MLflow: runs, their content, models, versions, aliases. MLflow's functions without a client call it too.
_CHANGES = (
    *("create_experiment", "create_run", "log_batch", "log_inputs", "log_metric", "set_terminated", "delete_run"),
    *("create_logged_model", "finalize_logged_model", "log_outputs", "log_dict", "delete_logged_model"),
    *("create_registered_model", "create_model_version", "delete_model_version", "set_registered_model_alias"),
)


@contextmanager
def changes_of_mlflow_count() -> Iterator[None]:
    """In the block a change of MLflow counts as a commit, and whoever is stopped counts as dead."""
    with pytest.MonkeyPatch.context() as patched:
        changes = [(MlflowClient, name) for name in _CHANGES]
        patched.setattr(stopped_commits, "COMMITS", [*stopped_commits.COMMITS, *changes])
        patched.setattr(leases, "this_process", dead_process)
        yield


def stopped_behind_each(step: Callable[[], object], check: Callable[[], None], prepare: Callable[[], object]) -> int:
    """Stop a step behind its first change, its second one and so on, each time from a fresh start, and repeat it.

    :param check: what holds after the repetition.
    :param prepare: makes the start.
    :returns: how many changes there were.
    """
    number = 0
    while True:
        number += 1
        prepare()
        with changes_of_mlflow_count():
            was_stopped = stopped_commits.stopped_behind(number, step)
        step()
        check()
        if not was_stopped:
            return number - 1
