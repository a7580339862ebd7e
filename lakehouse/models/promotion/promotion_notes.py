"""The release notes of a promotion, as Markdown: author, version, reason, training data, and comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.text import format_moment
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import ReleaseError, ReleaseKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakehouse.contracts import Catalog
    from lakehouse.models.backtest_log import Backtest
    from lakehouse.settings import Settings
    from lakehouse.training_sets.releases import Release


def as_markdown(
    settings: Settings,
    catalog: Catalog,
    release: Release,
    before: str | None,
    by: str,
    notes: str,
    backtest: Backtest | None,
    accepted: Sequence[str],
    sign_off: str | None,
) -> str:
    """The release notes for the promotion of a version that replaces ``before``."""
    replaced = _release_of(settings, release.name, before)
    about = release.about
    title = f"# {release.name} {release.version}" + (f" replaces {before}" if before else "")
    lines = [title, "", f"By {by} on {format_moment(settings.clock())}: {notes}", ""]
    lines += [f"Released by {release.by}: {release.notes}", ""]
    description = catalog.models[release.name].description if release.name in catalog.models else ""
    lines += [description, ""] if description else []
    labels = about["training_set"].get("labels") or {}
    of_labels = f", with the labels {labels['source']} {labels['version']}" if labels else ""
    function = f"`{about['function']}`, code {about['code']['training']}"
    lines += [f"Learned from {about['training_set']['full_name']}{of_labels} by {function}.", ""]
    changes = [*_changed("parameter", about, replaced, "parameters"), *_changed("feature", about, replaced, "features")]
    lines += [*(f"- {change}" for change in changes), *([""] if changes else [])]
    lines += _quality(release, replaced)
    if backtest is not None:
        lines += [f"Backtest of {backtest.title}: {'passed' if backtest.passed else 'not passed'} ({backtest.report}).", ""]
    lines += [*(f"- Not met: {rule}" for rule in accepted), *([""] if accepted else [])]
    lines += [f"Signed off by {by}: {sign_off}", ""] if accepted else []
    back = f"lakehouse model rollback {release.name} --by YOU --notes WHY"
    lines += ["To go back:", "", f"    {back}"] if before else []
    return "\n".join(lines).rstrip() + "\n"


def _release_of(settings: Settings, model: str, version: str | None) -> Release | None:
    if version is None:
        return None
    try:
        return releases.find(settings, ReleaseKind.MODEL, model, version)
    except ReleaseError:  # registered without the lakehouse
        return None


def _changed(noun: str, about: Mapping[str, Any], replaced: Release | None, key: str) -> list[str]:
    """The differences from the replaced version: new, removed and changed entries of ``key``."""
    if replaced is None:
        return []
    new, old = about.get(key, {}), replaced.about.get(key, {})
    sentences = [f"The {noun} {name} is new." for name in new if name not in old]
    sentences += [f"The {noun} {name} is gone." for name in old if name not in new]
    differing = [name for name in new if name in old and new[name] != old[name]]
    if noun == "parameter":
        return sentences + [f"The {noun} {name} was {old[name]} and is {new[name]}." for name in differing]
    return sentences + [f"The {noun} {name} is defined otherwise." for name in differing]


def _quality(release: Release, replaced: Release | None) -> list[str]:
    """The quality measures on the part on which each version was evaluated."""
    columns = [entry for entry in (release, replaced) if entry is not None]
    measured = [entry.about["metrics"][entry.about["evaluated_on"]] for entry in columns]
    headings = [
        f"{entry.version} on {entry.about['training_set']['full_name']}/{entry.about['evaluated_on']}" for entry in columns
    ]
    rows = [[name, *(_number(of_version.get(name)) for of_version in measured)] for name in measured[0]]
    table = [["measure", *headings], ["---"] * (len(columns) + 1), *rows]
    return [*(f"| {' | '.join(row)} |" for row in table), ""]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
