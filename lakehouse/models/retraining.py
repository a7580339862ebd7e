"""Retrains a model after corrections of its training data: labels, set, model and backtest, each as a new version.

A retraining is due if the changed rows reach the bounds of the model's policy, once per cause. It promotes nothing.

``ops/retrainings`` records each retraining when it is queued and after every step. The first entry names the versions that it
makes: the next run continues a stopped retraining with the same versions, and makes no others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timezone
from enum import Enum
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from lakehouse import locations
from lakehouse.errors import LakehouseError
from lakehouse.ledger.log_table import LogTable
from lakehouse.models import backtest_log, promotion_log, training
from lakehouse.training_sets import build, changes, labels, releases
from lakehouse.training_sets.releases import ReleaseKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lakehouse.contracts import Catalog, ModelContract
    from lakehouse.contracts.model import RetrainingPolicy
    from lakehouse.lake import Lake
    from lakehouse.models.backtest_log import Backtest
    from lakehouse.training_sets.changes import SetChanges
    from lakehouse.training_sets.releases import Release

__all__ = ["PossibleRetraining", "Retraining", "RetrainingError", "carry_out", "due", "possible"]


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
    return LogTable(Retraining, lake, locations.retrainings(lake), partition_by="model")


def retrainings_of(lake: Lake, model: str | None = None) -> list[Retraining]:
    """The retrainings of a model, or of all models, each in the state after its newest step; those of a model oldest first."""
    newest: dict[tuple[str, int], Retraining] = {}
    entries = log(lake).read({"model": [model]} if model else None)
    for entry in sorted(entries, key=lambda entry: (entry.model, entry.number, _ORDER.index(entry.step))):
        newest[entry.model, entry.number] = entry
    return list(newest.values())


def unfinished(lake: Lake, model: str) -> Retraining | None:
    """The retraining that has begun and has steps left; None without one."""
    return next((entry for entry in retrainings_of(lake, model) if not entry.is_over), None)


def retrainings_of_cause(lake: Lake, model: str, cause: str) -> Retraining | None:
    """The retraining for ``cause`` that was not given up; None without one."""
    of_model = retrainings_of(lake, model)
    return next((entry for entry in of_model if entry.cause == cause and entry.step is not RetrainingStep.GIVEN_UP), None)


def queue(lake: Lake, entry: Retraining) -> Retraining:
    """Record the start of a retraining, once per cause, and return the valid entry, which names the versions to make.

    :raises RetrainingError: if a retraining with another cause has begun at the same time.
    """
    known = retrainings_of_cause(lake, entry.model, entry.cause)
    if known is not None:
        return known
    log(lake).append([entry], app_id=f"retraining:{entry.model}", app_version=entry.number)
    recorded = next(other for other in retrainings_of(lake, entry.model) if other.number == entry.number)
    if recorded.cause != entry.cause:
        msg = (
            f"another retraining of {entry.model} to {recorded.new_version} was begun by {recorded.by} at the same time; "
            "repeat the run when it has ended"
        )
        raise RetrainingError(msg)
    return recorded


def record_retraining(lake: Lake, entry: Retraining, step: RetrainingStep, detail: str = "") -> Retraining:
    """Record a step once, and return the retraining after it."""
    done = replace(entry, step=step, detail=detail, recorded_at=lake.now())
    log(lake).append([done], app_id=f"retraining:{entry.model}:{entry.number}:{step.name}")
    return done


@dataclass(frozen=True)
class PossibleRetraining:
    """A retraining that has begun, or that new inputs may require.

    :param is_begun: whether the retraining is in the log and has steps left.
    :param text: the reason, as text.
    """

    cause: str
    is_begun: bool
    text: str


def possible(lake: Lake, contract: ModelContract) -> PossibleRetraining | None:
    """A retraining that a run may have to carry out, from the logs and the keys of new inputs; without Spark and MLflow.

    The keys of new inputs give an upper bound on the changed rows; only :func:`due` determines their number.

    :raises MissingSetError: if the rows of the set are gone.
    """
    begun = unfinished(lake, contract.name)
    if begun is not None and contract.retrain_when is not None:
        return PossibleRetraining(begun.cause, is_begun=True, text=f"the retraining to {begun.new_version} has steps left")
    compared = _compared_set(lake, contract)
    if contract.retrain_when is None or compared is None:
        return None
    _, of_set = compared
    news = changes.new_inputs(lake, of_set)
    if not news.inputs or retrainings_of_cause(lake, contract.name, news.cause) is not None:
        return None
    most = changes.at_most(lake, news)
    if most is not None and not is_reached(contract.retrain_when, rows=most, labels=most, total=news.total):
        return None
    rows = "any number of rows" if most is None else f"up to {most:,} of {news.total:,} rows"
    return PossibleRetraining(news.cause, is_begun=False, text=f"{rows} of {of_set.full_name} may have changed")


def due(session: Callable[[], SparkSession], lake: Lake, catalog: Catalog, contract: ModelContract) -> Retraining | None:
    """The retraining to carry out: one that has begun and has steps left, or else one required by the model's policy."""
    begun = unfinished(lake, contract.name)
    if contract.retrain_when is None or begun is not None:
        return begun if contract.retrain_when is not None else None
    compared = _compared_set(lake, contract)
    if compared is None:
        return None
    champion, of_set = compared
    return called_for(lake, catalog, contract, champion, changes.since(session, lake, catalog, of_set))


def called_for(lake: Lake, catalog: Catalog, contract: ModelContract, champion: str, changed: SetChanges) -> Retraining | None:
    """The retraining that the policy requires for ``changed``; None if no bound is reached or the cause already had one.

    :param changed: the changes of rows since a version of the model's set.
    """
    policy = contract.retrain_when
    rows = changed.changed + changed.added + changed.removed
    if (
        policy is None
        or not changed.inputs
        or not is_reached(policy, rows=rows, labels=changed.changed_labels, total=changed.total)
    ):
        return None
    if retrainings_of_cause(lake, contract.name, changed.cause) is not None:
        return None
    of_set = catalog.training_sets[contract.training_set]
    numbers = [entry.number for entry in retrainings_of(lake, contract.name)]
    proposed = Retraining(
        model=contract.name,
        number=max(numbers, default=0) + 1,
        step=RetrainingStep.QUEUED,
        cause=changed.cause,
        champion=champion,
        training_set=of_set.name,
        set_version=changed.release.version,
        changed_rows=rows,
        changed_labels=changed.changed_labels,
        share=f"{changed.share:.4%}",
        new_labels=releases.next_version(lake, ReleaseKind.LABELS, of_set.label.source),
        new_set=releases.next_version(lake, ReleaseKind.TRAINING_SET, of_set.name),
        new_version=releases.next_version(lake, ReleaseKind.MODEL, contract.name),
        by="",
        recorded_at=lake.now(),
    )
    return _sharing(lake, proposed)


def is_reached(policy: RetrainingPolicy, *, rows: int, labels: int, total: int) -> bool:
    """Whether ``rows`` changed rows, with ``labels`` changed labels among them, reach a bound of a policy.

    :param total: the number of rows in the set; a share of 0 is reached by any changed row.
    """
    by_rows = policy.changed_rows is not None and rows > 0 and rows >= policy.changed_rows * total
    return by_rows or (policy.changed_labels is not None and labels >= policy.changed_labels)


def carry_out(
    session: Callable[[], SparkSession],
    lake: Lake,
    catalog: Catalog,
    contract: ModelContract,
    retraining: Retraining,
    *,
    by: str,
) -> Retraining:
    """Release labels, build the set, train and backtest, skipping completed steps. The new version is not promoted.

    :param retraining: the result of :func:`due`.
    :returns: the retraining after its last step.
    :raises RetrainingError: if one of its versions has been taken in the meantime.
    :raises LakehouseError: if a step fails; the next call resumes with the failed step.
    """
    entry = queue(lake, replace(retraining, by=by))
    of_set = catalog.training_sets[contract.training_set]
    source = of_set.label.source

    def release_labels() -> str:
        labels.release(lake, catalog.sources[source], entry.new_labels, by=entry.by, notes=entry.notes)
        return f"{source}_{entry.new_labels}"

    def build_set() -> str:
        made = build.build(
            session(),
            lake,
            catalog,
            of_set,
            build.SetRequest(entry.new_set, by=entry.by, notes=entry.notes, labels_version=entry.new_labels),
        )
        return made.full_name

    def train() -> str:
        parameters = releases.find(lake, ReleaseKind.MODEL, contract.name, entry.champion).about["parameters"]
        made = training.train(
            lake,
            catalog,
            contract,
            training.TrainingRequest(entry.new_version, entry.new_set, by=entry.by, notes=entry.notes, parameters=parameters),
        )
        return made.full_name

    making = (
        (RetrainingStep.LABELS_RELEASED, ReleaseKind.LABELS, source, entry.new_labels, release_labels),
        (RetrainingStep.SET_BUILT, ReleaseKind.TRAINING_SET, of_set.name, entry.new_set, build_set),
        (RetrainingStep.TRAINED, ReleaseKind.MODEL, contract.name, entry.new_version, train),
    )
    for step, kind, name, version, make in making:
        if entry.has_passed(step):
            continue
        _require_ours(lake, entry, kind, name, version)
        detail = make()
        _require_ours(lake, entry, kind, name, version)  # of two concurrent retrainings, the first counts
        entry = record_retraining(lake, entry, step, detail)
    if not entry.has_passed(RetrainingStep.BACKTESTED):
        tested = _backtest(session, lake, catalog, contract, entry)
        verdict = "the acceptance rules are met" if tested.passed else "; ".join(tested.failed)
        entry = record_retraining(lake, entry, RetrainingStep.BACKTESTED, f"{tested.title}: {verdict}")
    return entry


def months_of_evaluation(release: Release, zone: str) -> tuple[str, str]:
    """The first and the last month of the part on which a version was evaluated, such as 2024-10 and 2024-11.

    :param zone: the time zone of the event days.
    """
    of_part = release.about["training_set"]["time"][release.about["evaluated_on"]]
    first, last = (_in_zone(of_part[end], zone) for end in ("from", "to"))
    return f"{first:%Y-%m}", f"{last:%Y-%m}"


def _compared_set(lake: Lake, contract: ModelContract) -> tuple[str, Release] | None:
    """The champion, and the set version with which new inputs are compared; None without a champion.

    It is the champion's set, or the set built by its newest retraining, whose content requires no further retraining.
    """
    champion = promotion_log.in_use(lake, contract.name)
    if champion is None:
        return None
    learned = releases.find(lake, ReleaseKind.MODEL, contract.name, champion).about["training_set"]
    retrained = [entry for entry in retrainings_of(lake, contract.name) if entry.step is RetrainingStep.BACKTESTED]
    versions = [entry.new_set for entry in retrained if entry.champion == champion]
    version = versions[-1] if versions else learned["version"]
    return champion, releases.find(lake, ReleaseKind.TRAINING_SET, learned["name"], version)


def _sharing(lake: Lake, proposed: Retraining) -> Retraining:
    """The proposed retraining, with the labels and the set of another model's retraining for the same cause if there is one."""
    for other in retrainings_of(lake):
        of_both = [(entry.cause, entry.training_set, entry.set_version) for entry in (other, proposed)]
        if of_both[0] == of_both[1] and other.step is not RetrainingStep.GIVEN_UP:
            return replace(proposed, new_labels=other.new_labels, new_set=other.new_set)
    return proposed


def _require_ours(lake: Lake, entry: Retraining, kind: ReleaseKind, name: str, version: str) -> None:
    """:raises RetrainingError: if a version was released with other content than this retraining makes."""
    of_version = (release for release in releases.all_of(lake, kind, name) if release.version == version)
    taken = next((release for release in of_version if release.notes != entry.notes), None)
    if taken is None:
        return
    reason = f"{taken.full_name} was released by {taken.by} meanwhile"
    record_retraining(lake, entry, RetrainingStep.GIVEN_UP, reason)
    msg = f"{entry.model}: {reason}, and contains something else; the next run retrains under other versions"
    raise RetrainingError(msg)


def _backtest(
    session: Callable[[], SparkSession], lake: Lake, catalog: Catalog, contract: ModelContract, entry: Retraining
) -> Backtest:
    from lakehouse.models import backtest  # noqa: PLC0415 (scikit-learn loads in seconds)

    release = releases.find(lake, ReleaseKind.MODEL, contract.name, entry.new_version)
    entity = catalog.training_sets[contract.training_set].entity.source
    first, last = months_of_evaluation(release, catalog.sources[entity].clocks.timezone)
    recorded = backtest_log.newest_backtest(lake, contract.name, entry.new_version, entry.champion)
    if recorded is not None and (recorded.first_month, recorded.last_month) == (first, last):
        return recorded  # from a run that was stopped afterwards; a model with random scores would not give the same result again
    request = backtest.BacktestRequest(entry.new_version, entry.champion, first, last)
    return backtest.backtest(session(), lake, catalog, contract, request, by=entry.by)


def _in_zone(text: str, zone: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).astimezone(ZoneInfo(zone))
