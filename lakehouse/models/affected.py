"""The releases that a change affects: released labels, training sets, and the model versions trained on them.

Continues an analysis of ``impact``. This module only reads, and starts neither Spark nor MLflow. The version in use is taken from
the promotion log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakehouse.ledger import key_log
from lakehouse.models.promotion import promotion_log
from lakehouse.models.scoring import canary_log
from lakehouse.training_sets import affected as affected_sets
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import ReleaseKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.contracts import SourceContract
    from lakehouse.impact.result import Impact
    from lakehouse.settings import Settings
    from lakehouse.training_sets.affected import AffectedSet


@dataclass(frozen=True)
class AffectedModel:
    """A model version trained on an affected set.

    :param is_live: whether the version is the champion; ``is_challenger``: whether a canary of the version is running.
    """

    model: str
    version: str
    training_set: AffectedSet
    is_live: bool
    is_challenger: bool

    @property
    def role(self) -> str:
        """The version's role as text; empty without one."""
        return "in use" if self.is_live else "challenger in a canary" if self.is_challenger else ""

    def as_json(self) -> dict[str, Any]:
        """A dictionary for JSON, with the full name of the set."""
        return {
            "model": self.model,
            "version": self.version,
            "training_set": self.training_set.full_name,
            "is_live": self.is_live,
            "is_challenger": self.is_challenger,
        }


@dataclass(frozen=True)
class AffectedReleases:
    """The affected releases; ``labels`` are full names."""

    labels: Sequence[str] = field(default_factory=tuple)
    training_sets: Sequence[AffectedSet] = field(default_factory=tuple)
    models: Sequence[AffectedModel] = field(default_factory=tuple)

    def as_json(self) -> dict[str, Any]:
        """A dictionary for JSON. The row counts of a set whose table is gone are null."""
        return {
            "labels": list(self.labels),
            "training_sets": [_set_as_json(entry) for entry in self.training_sets],
            "models": [entry.as_json() for entry in self.models],
        }


def of_impact(settings: Settings, source: SourceContract, impact: Impact) -> AffectedReleases:
    """The releases affected by an analysed file, key, range of days or decision of ``source``."""
    records = impact.records
    if records is None:
        first, last = min(impact.days), max(impact.days)
        labels = affected_sets.labels_by_days(settings, source, first, last)
        sets = affected_sets.by_days(settings, source, first, last)
    else:
        keys = records.keys
        if keys is None:
            keys = key_log.keys_of(settings, source.dataset, records.ingestions)
        labels = affected_sets.labels_by_keys(settings, source, keys)
        sets = affected_sets.by_keys(settings, source, keys, records.values)
    return AffectedReleases(labels, sets, of_sets(settings, sets))


def of_sets(settings: Settings, sets: Sequence[AffectedSet]) -> list[AffectedModel]:
    """The model versions trained on any of ``sets``, in the order of model and version."""
    by_name = {entry.full_name: entry for entry in sets}
    versions = releases.all_of(settings, ReleaseKind.MODEL) if sets else []
    trained = [entry for entry in versions if entry.about["training_set"]["full_name"] in by_name]
    models = {entry.name for entry in trained}
    live = {model: promotion_log.in_use(settings, model) for model in models}
    challengers = {model: canary_log.running(settings, model) for model in models}
    return [
        AffectedModel(
            entry.name,
            entry.version,
            by_name[entry.about["training_set"]["full_name"]],
            is_live=live[entry.name] == entry.version,
            is_challenger=(canary := challengers[entry.name]) is not None and canary.challenger == entry.version,
        )
        for entry in trained
    ]


def _set_as_json(entry: AffectedSet) -> dict[str, Any]:
    return {
        "name": entry.name,
        "version": entry.version,
        "rows": None if entry.is_gone else entry.rows,
        "total": entry.total,
        "share": None if entry.is_gone else entry.share,
    }
