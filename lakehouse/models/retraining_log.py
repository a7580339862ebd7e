"""``ops/retrainings``: the retrainings required by corrections, each as queued and after every step.

The first entry of a retraining names the versions that it makes, so that a resumed retraining makes no others. The conditions and
the steps of retraining belong to ``retraining``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from lakehouse.errors import LakehouseError
from lakehouse.ledger.log_table import LogTable
from lakehouse.training_sets import addresses

if TYPE_CHECKING:
    from datetime import datetime

    from lakehouse.lake import Lake


class RetrainingError(LakehouseError):
    """A retraining that cannot continue. The message states the reason and the remedy."""


class RetrainingStep(str, Enum):
    """The step that a retraining has reached, in order."""

    QUEUED = "queued"
    LABELS_RELEASED = "labels released"
    SET_BUILT = "set built"
    TRAINED = "trained"
    BACKTESTED = "backtested"
    GIVEN_UP = "given up"
    """Somebody else took one of its versions meanwhile: the cause may be queued again."""


_ORDER = list(RetrainingStep)


@dataclass(frozen=True)
class Retraining:
    """A retraining after a step.

    :param number: counts the retrainings of the model.
    :param cause: names the inputs that have arrived since ``set_version``, see :attr:`SetChanges.cause`.
    :param champion: the version in use, whose parameters are used and with which the new version is compared.
    :param set_version: the version of the training set whose rows have changed.
    :param changed_rows: the number of changed, added and removed rows; ``changed_labels``: of rows with another label.
    :param share: ``changed_rows`` as a share of the rows of the set, as text.
    :param new_labels: the version of the released labels; ``new_set`` and ``new_version`` are the versions of set and model.
    :param detail: the report of a step: the result of the backtest, or the reason for giving up.
    """

    model: str
    number: int
    step: RetrainingStep
    cause: str
    champion: str
    training_set: str
    set_version: str
    changed_rows: int
    changed_labels: int
    share: str
    new_labels: str
    new_set: str
    new_version: str
    by: str
    recorded_at: datetime
    detail: str = ""

    @property
    def notes(self) -> str:
        """The notes of all its releases, which identify it: two models with the same cause share labels and set."""
        return (
            f"retraining: {self.changed_rows:,} rows of {self.training_set}_{self.set_version} ({self.share}) and "
            f"{self.changed_labels:,} labels have changed (cause {self.cause})"
        )

    @property
    def is_over(self) -> bool:
        """Whether no step is left."""
        return self.step in {RetrainingStep.BACKTESTED, RetrainingStep.GIVEN_UP}

    def has_passed(self, step: RetrainingStep) -> bool:
        """Whether a step has been recorded."""
        return _ORDER.index(self.step) >= _ORDER.index(step)


def log(lake: Lake) -> LogTable[Retraining]:
    """The table of retrainings."""
    return LogTable(Retraining, lake, addresses.retrainings(lake), partition_by="model")


def of(lake: Lake, model: str | None = None) -> list[Retraining]:
    """The retrainings of a model, or of all models, each in the state after its newest step; those of a model oldest first."""
    newest: dict[tuple[str, int], Retraining] = {}
    entries = log(lake).read({"model": [model]} if model else None)
    for entry in sorted(entries, key=lambda entry: (entry.model, entry.number, _ORDER.index(entry.step))):
        newest[entry.model, entry.number] = entry
    return list(newest.values())


def unfinished(lake: Lake, model: str) -> Retraining | None:
    """The retraining that has begun and has steps left; None without one."""
    return next((entry for entry in of(lake, model) if not entry.is_over), None)


def of_cause(lake: Lake, model: str, cause: str) -> Retraining | None:
    """The retraining for ``cause`` that was not given up; None without one."""
    of_model = of(lake, model)
    return next((entry for entry in of_model if entry.cause == cause and entry.step is not RetrainingStep.GIVEN_UP), None)


def queue(lake: Lake, entry: Retraining) -> Retraining:
    """Record the start of a retraining, once per cause, and return the valid entry, which names the versions to make.

    :raises RetrainingError: if a retraining with another cause has begun at the same time.
    """
    known = of_cause(lake, entry.model, entry.cause)
    if known is not None:
        return known
    log(lake).append([entry], app_id=f"retraining:{entry.model}", app_version=entry.number)
    recorded = next(other for other in of(lake, entry.model) if other.number == entry.number)
    if recorded.cause != entry.cause:
        msg = (
            f"another retraining of {entry.model} to {recorded.new_version} was begun by {recorded.by} at the same time; "
            "repeat the run when it has ended"
        )
        raise RetrainingError(msg)
    return recorded


def record(lake: Lake, entry: Retraining, step: RetrainingStep, detail: str = "") -> Retraining:
    """Record a step once, and return the retraining after it."""
    done = replace(entry, step=step, detail=detail, recorded_at=lake.now())
    log(lake).append([done], app_id=f"retraining:{entry.model}:{entry.number}:{step.name}")
    return done
