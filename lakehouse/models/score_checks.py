"""The checks of a day's scores without labels: against the champion's training set, and between both versions of a canary.

The distance between two distributions is 0 if they are identical, and 1 if they are disjoint. The reference is a sample or a
stored summary. The bounds are in the model's contract.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.models import scores as model_scores
from lakehouse.models.comparison import THRESHOLD
from lakehouse.quality.check_rules import CheckResult
from lakehouse.text import join_limited
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import ReleaseKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime

    from numpy.typing import NDArray

    from lakehouse.contracts.model import ModelContract
    from lakehouse.contracts.training_set import TrainingSetContract
    from lakehouse.lake import Lake
    from lakehouse.models.scores import LoadedVersion
    from lakehouse.training_sets.releases import Release


def drift_from_summary(values: pa.ChunkedArray, summary: Mapping[str, Any], rows: int) -> float | None:
    """The distance of a column's values from the distribution in a manifest; NULL and NaN are left out on both sides.

    :param summary: for a column of numbers, ``quantiles``, evenly spaced from the smallest to the greatest value; for other
        columns, the most ``frequent`` values with their counts, and the share of ``nulls``.
    :param rows: the number of rows summarized.
    :returns: None if either side has no value, or if the summary says nothing about the distribution.
    """
    present = values.drop_null()
    if not len(present):
        return None
    quantiles = summary.get("quantiles")
    if quantiles:
        plain = present.cast(pa.int8()) if pa.types.is_boolean(present.type) else present
        numbers = plain.cast(pa.float64(), safe=False).to_numpy()
        numbers = numbers[~np.isnan(numbers)]
        return from_quantiles(numbers, quantiles) if len(numbers) else None
    frequent = summary.get("frequent")
    described = round(rows * (1 - float(summary.get("nulls", 0))))
    return from_frequent(present, frequent, described) if frequent and described else None


def from_quantiles(values: NDArray[np.float64], quantiles: Sequence[float]) -> float:
    """Kolmogorov-Smirnov statistic against a reference known only by evenly spaced quantiles (a lower bound).

    Between two quantiles, the reference's cumulative share may have any value between the two levels; only excess beyond these
    counts.

    :param values: at least one value, without NaN.
    """
    known = np.asarray(quantiles, dtype=np.float64)
    levels = np.linspace(0, 1, len(known))
    ordered = np.sort(values)
    at = np.union1d(ordered, known)
    distance = 0.0
    for side in ("left", "right"):  # shares of the values below each place, and up to it
        ours = np.searchsorted(ordered, at, side=side) / len(ordered)
        places = np.searchsorted(known, at, side=side)
        least = np.where(places > 0, levels[np.maximum(places - 1, 0)], 0.0)
        most = np.where(places < len(known), levels[np.minimum(places, len(known) - 1)], 1.0)
        distance = max(distance, float(np.max(least - ours)), float(np.max(ours - most)))
    return distance


def from_frequent(values: pa.ChunkedArray, frequent: Mapping[str, int], described: int) -> float:
    """Half the sum of the differences of shares (total variation distance); all unlisted values count as one.

    :param values: at least one value, without NULL.
    :param described: the number of values from which the frequent ones were counted.
    """
    counted = pc.value_counts(values.cast(pa.string()))
    ours = dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist()))
    shares = [(ours.get(name, 0) / len(values), count / described) for name, count in frequent.items()]
    others = (1 - sum(one for one, _ in shares), 1 - sum(other for _, other in shares))
    apart = [abs(one - other) for one, other in [*shares, others]]
    return float(sum(apart)) / 2


def drift_of_samples(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> float:
    """The greatest difference between the cumulative shares of two non-empty samples; exact form: ``quality.statistics``."""
    first, second = np.sort(ours), np.sort(theirs)
    at = np.concatenate([first, second])
    shares = (np.searchsorted(sample, at, side="right") / len(sample) for sample in (first, second))
    return float(np.max(np.abs(np.subtract(*shares))))


#: The number of features named in a message.
_NAMED = 5
_DIGITS = 4


def set_of(lake: Lake, contract: ModelContract, version: str) -> Release:
    """The training set version on which a model version was trained; its manifest is in ``about``.

    :raises ReleaseError: if the version, or its set, does not exist.
    """
    of_set = releases.find(lake, ReleaseKind.MODEL, contract.name, version).about["training_set"]
    return releases.find(lake, ReleaseKind.TRAINING_SET, of_set["name"], of_set["version"])


def reference_scores(lake: Lake, contract: ModelContract, champion: LoadedVersion) -> NDArray[np.float64]:
    """The scores of a version on the part of its set that was used for evaluation, and not for training.

    :raises MissingSetError: if the rows of the set are gone.
    """
    release = releases.find(lake, ReleaseKind.MODEL, contract.name, champion.version)
    part = release.about.get("evaluated_on")
    where = None if part is None else {"split": [part]}
    rows = releases.read_set(lake, set_of(lake, contract, champion.version), list(champion.features), where)
    return champion.scores(rows)


def row_count(contract: ModelContract, day: date, scores: pa.Table, events: pa.Table) -> CheckResult:
    """Check that each event of the day has exactly one served score, and each served score has an event.

    :param scores: the scores of the day; ``events``: its events, with ``record_key``.
    """
    served = scores.filter(scores["served"])["record_key"]
    keys = events["record_key"]
    missing = len(keys) - _among(keys, served)
    surplus = len(served) - _among(pc.unique(served), keys)
    numbers = {"events": len(keys), "served": len(served), "without_score": missing, "surplus": surplus}
    explanation = (
        f"{missing:,} of {len(keys):,} events have no score that counts, and {surplus:,} scores are of no event or one too many; "
        f"'lakehouse model score {contract.name} --from {day}' scores the day again"
    )
    return _result("row_count", day, not missing and not surplus, numbers, explanation)


def null_shares(contract: ModelContract, day: date, rows: pa.Table, of_set: Release) -> CheckResult:
    """Check the NULL share of each feature: the excess over the champion's set is bounded.

    :param rows: the events of the day with their features.
    """
    bound = float(contract.checks.null_share)
    columns = _described(rows, of_set)
    if len(rows) < contract.checks.needs_rows:
        return _too_few("null_shares", day, len(rows))
    beyond = {name: rows[name].null_count / len(rows) - float(about.get("nulls", 0)) for name, about in columns.items()}
    return _bounded("null_shares", day, beyond, bound, f"NULL more often than in {of_set.full_name}", len(rows))


def feature_drift(contract: ModelContract, day: date, rows: pa.Table, of_set: Release) -> CheckResult:
    """Check that each feature is distributed as in the champion's set; see ``drift``."""
    if len(rows) < contract.checks.needs_rows:
        return _too_few("feature_drift", day, len(rows))
    described = int(of_set.about.get("rows", 0))
    distances = {name: drift_from_summary(rows[name], about, described) for name, about in _described(rows, of_set).items()}
    known = {name: distance for name, distance in distances.items() if distance is not None}
    bound = float(contract.checks.feature_drift)
    return _bounded("feature_drift", day, known, bound, f"distributed otherwise than in {of_set.full_name}", len(rows))


def prediction_drift(
    contract: ModelContract, day: date, scores: pa.Table, champion: str, reference: NDArray[np.float64]
) -> CheckResult:
    """Check that the champion's scores of the day are distributed like those on its own set.

    :param champion: the champion's version; scores of other versions are ignored.
    :param reference: see :func:`reference_scores`.
    """
    ours = scores.filter(pc.equal(scores["model_version"], champion))["score"].to_numpy()
    if len(ours) < contract.checks.needs_rows or not len(reference):
        return _too_few("prediction_drift", day, len(ours))
    bound, distance = float(contract.checks.prediction_drift), drift_of_samples(ours, reference)
    numbers = {
        "rows": len(ours),
        "distance": round(distance, _DIGITS),
        "bound": bound,
        "mean": round(float(ours.mean()), _DIGITS),
        "mean_on_its_set": round(float(reference.mean()), _DIGITS),
    }
    explanation = (
        f"the scores of {champion} are {distance:.3f} away from those on its own set (bound {bound:g}; mean {ours.mean():.4f}, "
        f"was {reference.mean():.4f}); see feature_drift for the cause, and train on newer events if the world has changed"
    )
    return _result("prediction_drift", day, distance <= bound, numbers, explanation, warns=True)


def label_maturity(of_set: TrainingSetContract, day: date, scores: pa.Table, labelled: pa.Table, now: datetime) -> CheckResult:
    """Check that the events of a day have a label once labels are mature; before that, count the events still to be labelled.

    :param scores: the scores of the day.
    :param labelled: the events of the day with mature labels.
    """
    served = scores.filter(scores["served"])
    mature_from = pa.scalar(now - of_set.label.maturity, served["event_ts"].type)
    mature = served.filter(pc.less_equal(served["event_ts"], mature_from))["record_key"]
    missing = len(mature) - _among(mature, labelled["record_key"])
    numbers = {"rows": len(served), "mature": len(mature), "labelled": len(mature) - missing, "missing": missing}
    explanation = (
        f"{missing:,} of {len(mature):,} events are older than {of_set.label.maturity.days} days and have no label; ask the "
        f"owner of {of_set.label.source}, or give the label a default if no record means none"
    )
    return _result("label_maturity", day, not missing, numbers, explanation, warns=True)


def training_serving_skew(
    contract: ModelContract, day: date, scores: pa.Table, version: LoadedVersion, rows: pa.Table
) -> CheckResult:
    """Check that the scored features equal those of a set built now for the same events.

    :param scores: the scores of the day; scores of versions other than ``version`` are ignored.
    :param rows: the events of the day with features as known then, built after the scoring; scores without an event are ignored.
    """
    scored = scores.filter(pc.equal(scores["model_version"], version.version))
    places = pc.index_in(scored["record_key"], value_set=rows["record_key"].combine_chunks())
    is_there = pc.is_valid(places).to_numpy()
    hashes = model_scores.features_hash(rows, version.features)
    now = hashes[places.drop_null().to_numpy()]
    then = scored["features_hash"].to_numpy()[is_there]
    differing = int((now != then).sum())
    share, bound = differing / len(then) if len(then) else 0.0, float(contract.checks.skew)
    numbers = {"rows": len(then), "differing": differing, "share": round(share, _DIGITS), "bound": bound}
    numbers["gone"] = len(scored) - len(then)
    explanation = (
        f"{differing:,} of {len(then):,} events were scored with other features than a training set has for them now "
        f"({share:.2%}, bound {bound:.2%}): they arrived, or were published, after the scoring; score a day later, or score again"
    )
    return _result("training_serving_skew", day, share <= bound, numbers, explanation)


def _described(rows: pa.Table, of_set: Release) -> dict[str, Mapping[str, Any]]:
    """The features that both the rows and the manifest have, with their description in the manifest."""
    columns: Mapping[str, Mapping[str, Any]] = of_set.about.get("columns", {})
    return {name: about for name, about in columns.items() if name in rows.column_names and name != "label"}


def _bounded(check: str, day: date, values: Mapping[str, float], bound: float, how: str, rows: int) -> CheckResult:
    """Check a number of each feature against one bound."""
    beyond = sorted((name for name, value in values.items() if value > bound), key=lambda name: -values[name])
    named: Sequence[str] = [f"{name} ({values[name]:.3f})" for name in beyond]
    explanation = f"{join_limited(named, _NAMED, 'features')}: {how}, by more than {bound:g}; look at what arrived on the day"
    numbers = {"rows": rows, "bound": bound, **{name: round(value, _DIGITS) for name, value in values.items()}}
    return _result(check, day, not beyond, numbers, explanation, warns=True)


def _too_few(check: str, day: date, rows: int) -> CheckResult:
    return CheckResult(check, day, passed=True, numbers={"rows": rows, "judged": False})


def _result(
    check: str,
    day: date,
    passed: bool,  # noqa: FBT001 (as the class has it)
    numbers: Mapping[str, Any],
    explanation: str,
    *,
    warns: bool = False,
) -> CheckResult:
    """A result, with explanation and severity only if it failed."""
    return CheckResult(check, day, passed, dict(numbers), None if passed else explanation, warns=warns and not passed)


def _among(keys: pa.Array | pa.ChunkedArray, others: pa.Array | pa.ChunkedArray) -> int:
    """The number of ``keys`` that occur in ``others``."""
    value_set = others.combine_chunks() if isinstance(others, pa.ChunkedArray) else others
    return pc.sum(pc.is_in(keys, value_set=value_set)).as_py() or 0


#: The number of entities with the greatest difference that are listed.
_DAY_COMPARISON_NAMED = 10


@dataclass(frozen=True)
class ApartEntity:
    """An entity with the scores of both versions."""

    record_key: str
    champion: float
    challenger: float


@dataclass(frozen=True)
class DayComparison:
    """The scores of both versions on the same entities of an event day.

    :param distance: the greatest difference between the cumulative shares of both versions.
    :param correlation: None if a version gives every entity the same score.
    :param decisions: the number of entities that only one of the versions scores at or above the prediction threshold.
    :param furthest: the entities with the greatest differences, in descending order.
    """

    day: date
    entities: int
    champion_mean: float
    challenger_mean: float
    mean_difference: float
    distance: float
    correlation: float | None
    decisions: int
    furthest: list[ApartEntity]


def compare_day(day: date, scores: pa.Table) -> DayComparison | None:
    """Compare the scores of a day; None if no entity has both scores.

    :param scores: the scores of the canary, from ``canary.scores_of_both``.
    """
    rows = scores.filter(pc.equal(scores["event_date"], pa.scalar(day)))
    if not len(rows):
        return None
    champion, challenger = (rows[side].to_numpy() for side in ("champion", "challenger"))
    apart = np.abs(challenger - champion)
    order = np.lexsort((rows["record_key"].to_numpy(zero_copy_only=False), -apart))[:_DAY_COMPARISON_NAMED]
    named = rows.take(pa.array(order)).to_pylist()
    varies = champion.std() > 0 and challenger.std() > 0
    return DayComparison(
        day=day,
        entities=len(rows),
        champion_mean=float(champion.mean()),
        challenger_mean=float(challenger.mean()),
        mean_difference=float(apart.mean()),
        distance=drift_of_samples(champion, challenger),
        correlation=float(np.corrcoef(champion, challenger)[0, 1]) if varies else None,
        decisions=int(((champion >= THRESHOLD) != (challenger >= THRESHOLD)).sum()),
        furthest=[ApartEntity(row["record_key"], row["champion"], row["challenger"]) for row in named],
    )
