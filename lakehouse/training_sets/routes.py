"""``/datasets``: the released versions of labels and training sets, and the manifest of a version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from starlette.concurrency import run_in_threadpool

from lakehouse.models import lineage
from lakehouse.serving import released_models, responses
from lakehouse.serving.parameters import NAME, NoParameters
from lakehouse.serving.responses import Problem
from lakehouse.training_sets import releases
from lakehouse.training_sets.affected import AffectedSet
from lakehouse.training_sets.releases import ReleaseKind

if TYPE_CHECKING:
    from lakehouse.lake import Lake
    from lakehouse.serving.published_cache import PublishedCache
    from lakehouse.training_sets.releases import Release


DatasetName = Annotated[str, Path(description="A source of labels or a training set.", pattern=NAME, examples=["training_data"])]
ReleasedVersion = Annotated[str, Path(description="A released version.", pattern="^v[0-9]{1,6}[.][0-9]{1,6}$", examples=["v5.0"])]
_KINDS = (ReleaseKind.TRAINING_SET, ReleaseKind.LABELS)


def routes(cache: PublishedCache) -> APIRouter:
    """The routes of this resource."""
    router = APIRouter(prefix="/datasets", tags=["datasets"])

    @router.get("", response_model=released_models.DatasetsModel, summary="Released labels and training sets")
    async def datasets(request: Request, _: NoParameters) -> Response:
        """All released versions, with the author, the notes, and the deprecation if there is one."""
        return responses.respond(request, {"datasets": await run_in_threadpool(listed, cache.lake)})

    @router.get(
        "/{name}/versions/{version}",
        response_model=released_models.DatasetManifestModel,
        summary="The manifest of a released version",
    )
    async def manifest(request: Request, name: DatasetName, version: ReleasedVersion, _: NoParameters) -> Response:
        """The content of a version, its origin, and the versions made from it."""
        return responses.respond(request, await run_in_threadpool(described, cache.lake, name, version))

    return router


def listed(lake: Lake) -> list[dict[str, Any]]:
    """The released versions of labels and training sets, in the order of name and version."""
    deprecations = releases.deprecations(lake)
    versions = [entry for entry in releases.all_of(lake) if entry.kind in _KINDS]
    return [_version(entry, deprecations.get(entry.full_name)) for entry in versions]


def described(lake: Lake, name: str, version: str) -> dict[str, Any]:
    """A version with its manifest, and the versions made from it.

    :raises Problem: if the version does not exist.
    """
    versions = [entry for entry in releases.all_of(lake, name=name) if entry.kind in _KINDS]
    release = next((entry for entry in versions if entry.version == version), None)
    if release is None:
        known = ", ".join(entry.version for entry in versions) or "none"
        raise Problem(404, "unknown-version", f"{name} {version} is not released; released are {known}; GET /datasets lists all")
    body = _version(release, releases.deprecations(lake, release.kind, name).get(release.full_name))
    models, sets = [], []
    if release.kind is ReleaseKind.TRAINING_SET:
        as_set = AffectedSet(name, version, release.about["rows"], release.about["rows"])
        uses = [entry.as_json() for entry in lineage.of_sets(lake, [as_set])]
        models = [{key: use[key] for key in ("model", "version", "is_live", "is_challenger")} for use in uses]
    else:
        of_labels = {"source": name, "version": version}
        built = releases.all_of(lake, ReleaseKind.TRAINING_SET)
        sets = [entry.full_name for entry in built if entry.about.get("labels") == of_labels]
    return body | {"manifest": dict(release.about), "training_sets": sets, "models": models}


def _version(release: Release, ended: Release | None) -> dict[str, Any]:
    return {
        "name": release.name,
        "kind": release.kind.value,
        "version": release.version,
        "full_name": release.full_name,
        "released_at": release.recorded_at,
        "released_by": release.by,
        "notes": release.notes,
        "known_at": release.known_at,
        "rows": release.about.get("rows"),
        "deprecated": None if ended is None else {"at": ended.recorded_at, "by": ended.by, "notes": ended.notes},
    }
