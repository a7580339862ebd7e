"""The lineage of a model version in one place: its training data, its quality, and its history; and the releases that a change
affects.

The lineage is read from the logs; neither Spark nor MLflow is started. A change may affect released labels, training sets, and
the model versions trained on them. Presentation belongs to the command line and the pages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakehouse.ledger import key_log
from lakehouse.models import backtest_log, canary_log, promotion_log
from lakehouse.training_sets import affected as affected_sets
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import ReleaseKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakehouse.contracts import SourceContract
    from lakehouse.impact.analysis import Impact
    from lakehouse.lake import Lake
    from lakehouse.models.backtest_log import Backtest
    from lakehouse.models.promotion_log import ModelPromotion
    from lakehouse.training_sets.affected import AffectedSet
    from lakehouse.training_sets.releases import Release


#: The fields of a promotion and of a backtest in the lineage, in this order.
_OF_PROMOTIONS = ("kind", "from_version", "to_version", "by", "notes", "recorded_at", "accepted", "sign_off", "backtest")
_OF_BACKTESTS = ("version", "against", "first_month", "last_month", "known_at", "passed", "failed", "report", "by", "recorded_at")


@dataclass(frozen=True)
class ModelLineage:
    """A version of a model and its history.

    :param about: the record of the training: ``training_set`` with its time ranges, labels and hash, ``features`` with their
        definitions, ``function``, ``code``, ``parameters``, ``metrics`` by part of the set, ``mlflow``.
    :param promotions: the promotions and rollbacks from or to this version, oldest first; ``backtests`` likewise.
    :param canaries: the events of its canaries, as passed in.
    :param deprecation: the record of the version's deprecation; ``set_deprecation``: that of its training set.
    """

    release: Release
    in_use: bool
    about: Mapping[str, Any]
    promotions: Sequence[ModelPromotion]
    backtests: Sequence[Backtest]
    canaries: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    deprecation: Release | None = None
    set_deprecation: Release | None = None

    def as_json(self) -> dict[str, Any]:
        """The lineage for JSON; times are text in ISO 8601."""
        return {
            "model": self.release.name,
            "version": self.release.version,
            "in_use": self.in_use,
            "released_at": self.release.recorded_at.isoformat(),
            "released_by": self.release.by,
            "notes": self.release.notes,
            **{key: value for key, value in self.about.items() if key != "identity"},
            "promotions": [_record(entry, _OF_PROMOTIONS) for entry in self.promotions],
            "backtests": [_record(entry, _OF_BACKTESTS) | {"measures": entry.measures} for entry in self.backtests],
            "canaries": [dict(event) for event in self.canaries],
            "deprecated": _deprecation(self.deprecation),
            "training_set_deprecated": _deprecation(self.set_deprecation),
        }


def of(lake: Lake, model: str, version: str, canaries: Sequence[Mapping[str, Any]] = ()) -> ModelLineage:
    """The lineage of ``version``.

    :param canaries: the events of its canaries, in the form in which they will be shown.
    :raises ReleaseError: for a version that does not exist.
    """
    release = releases.find(lake, ReleaseKind.MODEL, model, version)
    of_set = release.about["training_set"]
    promotions = promotion_log.completed(lake, model)
    return ModelLineage(
        release=release,
        in_use=bool(promotions) and promotions[-1].to_version == version,
        about=release.about,
        promotions=[entry for entry in promotions if version in {entry.from_version, entry.to_version}],
        backtests=[entry for entry in backtest_log.backtests_of(lake, model) if version in {entry.version, entry.against}],
        canaries=canaries,
        deprecation=releases.deprecations(lake, ReleaseKind.MODEL, model).get(release.full_name),
        set_deprecation=releases.deprecations(lake, ReleaseKind.TRAINING_SET, of_set["name"]).get(of_set["full_name"]),
    )


def _record(entry: Any, names: Sequence[str]) -> dict[str, Any]:
    values = {name: getattr(entry, name) for name in names}
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return getattr(value, "value", value)


def _deprecation(entry: Release | None) -> dict[str, Any] | None:
    return None if entry is None else {"at": entry.recorded_at.isoformat(), "by": entry.by, "notes": entry.notes}


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


def of_impact(lake: Lake, source: SourceContract, impact: Impact) -> AffectedReleases:
    """The releases affected by an analysed file, key, range of days or decision of ``source``."""
    records = impact.records
    if records is None:
        first, last = min(impact.days), max(impact.days)
        labels = affected_sets.labels_by_days(lake, source, first, last)
        sets = affected_sets.by_days(lake, source, first, last)
    else:
        keys = records.keys
        if keys is None:
            keys = key_log.keys_of(lake, source.dataset, records.ingestions)
        labels = affected_sets.labels_by_keys(lake, source, keys)
        sets = affected_sets.by_keys(lake, source, keys, records.values)
    return AffectedReleases(labels, sets, of_sets(lake, sets))


def of_sets(lake: Lake, sets: Sequence[AffectedSet]) -> list[AffectedModel]:
    """The model versions trained on any of ``sets``, in the order of model and version."""
    by_name = {entry.full_name: entry for entry in sets}
    versions = releases.all_of(lake, ReleaseKind.MODEL) if sets else []
    trained = [entry for entry in versions if entry.about["training_set"]["full_name"] in by_name]
    models = {entry.name for entry in trained}
    live = {model: promotion_log.in_use(lake, model) for model in models}
    challengers = {model: canary_log.running(lake, model) for model in models}
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
