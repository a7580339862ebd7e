"""The code and the contract that a commit was written with: part of the lineage of every number (rule R7).

A hash decides whether two contracts are the same. The commit of the Git repository from which contracts and code come tells a
person where to look; the setting ``code_commit`` names it where no repository is deployed, as in an image.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lakehouse import locations
from lakehouse.delta import commit_log

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog, ModelContract, TrainingSetContract
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake

_LOOK_BACK = 20
#: Keys of a contract that change no published number.
_CHANGE_NO_NUMBER = ("info", "description", "owner", "stewards", "tags", "alerts", "materiality", "live", "reconcile")

#: Keys that releases have added to sections, each with the value that keeps the behaviour from before the key existed.
_ADDED: tuple[tuple[str, str, Any], ...] = (
    ("source", "blank_is_null", True),
    ("source", "formats", {}),
    ("source", "joined", {}),
    ("source", "columns", []),
    ("source", "skip_lines", 0),
    ("source", "comment", ""),
    ("source", "array", False),
    ("clocks", "repeated_hour", None),
    ("clocks", "watermark.idle_timeout", None),
    ("materialization", "repeated_content", "counts"),
    ("materialization", "delivery", None),
    ("changes", "corrections", "whole"),
    ("dimension", "valid_to_is_last_day", False),
)


@cache
def code() -> str:
    """The package's version and a hash of its source, which changes with every edit of a checkout."""
    root, digest = f"{Path(__file__).parents[1]}", hashlib.sha256()
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(file for file in files if file.endswith(".py")):
            path = f"{folder}/{name}"
            digest.update(path.removeprefix(root).encode() + b"\0")
            with open(path, "rb") as file:  # noqa: PTH123 (a path object for each file takes as long as all the rest)
                digest.update(file.read())
    return f"{metadata.version('lakehouse')}+{digest.hexdigest()[:12]}"


def of_contract(contract: SourceContract | MetricContract) -> str:
    """A hash of a contract without the keys that change no published number, such as owners, alerts and approvals.

    ``rows`` counts where a metric reads the newest rows only, ``joins``, ``sources`` and ``late_events`` where it has some,
    ``from`` where it is derived, ``inputs.window`` where an input has windows, ``source.envelope``, ``source.kafka`` and its
    ``values`` where a source has one, and the keys of dimensions where it is one: other contracts have the hash of before there
    were such keys, as have those without a value of their own for :data:`_ADDED`, and those with ``late_events.at_close``
    ``exclude``. The zone of a metric counts where it is not UTC and a measure depends on it.
    """
    without: dict[str, Any] = dict.fromkeys(_CHANGE_NO_NUMBER, True)
    if getattr(contract, "rows", None) != "newest":
        without["rows"] = True
    if not getattr(contract, "joins", None):
        without["joins"] = True
    if not getattr(contract, "sources", None):
        without |= {"sources": True, "deduplicate_by": True}
    if getattr(contract, "kind", "event") == "event":
        without |= {"kind": True, "dimension": True}
    if not getattr(contract, "derived_from", None):
        without |= {"derived_from": True, "inputs": True}
    elif not any(read.window for read in getattr(contract, "inputs", ())):
        without["inputs"] = {"__all__": {"window"}}
    late_events = getattr(contract, "late_events", None)
    if late_events is None:
        without["late_events"] = True
    else:  # where late rows are sent to changes no number
        without["late_events"] = {"topic", *(["at_close"] if late_events.at_close.value == "exclude" else [])}
    without |= _without_in_sections(contract)
    content = contract.model_dump_json(exclude=without)
    return hashlib.sha256((content + getattr(contract, "zone_of_numbers", "")).encode()).hexdigest()[:12]


def _without_in_sections(contract: SourceContract | MetricContract) -> dict[str, Any]:
    """The keys of sections that change no number, or that earlier releases did not have, by section."""
    publication = getattr(contract, "publication", None)
    if publication is not None:
        needs = {"final_needs": {"no_unread_row"}} if publication.final_needs.no_unread_row else {}
        return {"publication": {"approvals": True, **needs}}
    source = cast("SourceContract", contract)
    without: dict[str, dict[str, Any]] = {"quality": {"malformed": True}}
    for section, name, default in _ADDED:
        key, _, within = name.partition(".")
        value = getattr(getattr(contract, section), key)
        if (getattr(value, within, default) if within else value) == default:
            without.setdefault(section, {})[key] = {within} if within else True
    if source.lateness.by is not None:  # a proposed cutoff changes no number
        without.setdefault("lateness", {})["by"] = {"values": {"__all__": {"tuning"}}}
    if getattr(contract, "kind", "event") == "event":
        without.setdefault("changes", {})["retract_words"] = True
        without.pop("dimension", None)  # the whole section is left out
    of_source = without.setdefault("source", {})
    of_source |= {name: True for name in ("envelope", "kafka") if getattr(contract.source, name) is None}
    if kafka := getattr(contract.source, "kafka", None):
        # Where the topic and its schemas are read changes no number.
        of_source["kafka"] = {"servers": True, "options": True, "values": {"registry"} if kafka.values else True}
    return {section: names for section, names in without.items() if names}


def of_definition(contract: TrainingSetContract | ModelContract) -> str:
    """A hash of the contract of a training set or of a model, without the keys that only describe it."""
    content = contract.model_dump_json(exclude=dict.fromkeys(("info", "description", "owner", "tags"), True))
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def of_contracts(catalog: Catalog, source: str) -> dict[str, str]:
    """The versions of a source's contract and of those of the metrics that read it, by name."""
    metrics = {metric_beside(source, metric.name): of_contract(metric) for metric in catalog.metrics_of(source)}
    return {source: of_contract(catalog.sources[source])} | metrics


def metric_beside(source: str, metric: str) -> str:
    """The name of a metric among the contracts of its source, which may have the same name."""
    return f"gold/{metric}" if metric == source else metric


def stamp(contract: SourceContract) -> dict[str, str]:
    """The versions of the code and of the contract, as commit metadata."""
    return {"code": code(), "contract": of_contract(contract)}


def newest_in_silver(lake: Lake, source: str) -> dict[str, str | None]:
    """The code and the contract that wrote the newest commit to silver that records them; None if no recent commit does."""
    table = locations.silver(lake, source).open()
    for commit in [] if table is None else commit_log.history(table, max(-1, table.version() - _LOOK_BACK)):
        recorded = commit_log.commit_metadata(commit)
        if "code" in recorded:
            return {"code": recorded["code"], "contract": recorded.get("contract")}
    return {"code": None, "contract": None}


_LENGTH = 12
_SECONDS = 10
#: At the end of the commit of a folder with changes that are not committed.
MODIFIED = "+modified"


def commit_of_contracts(lake: Lake) -> str | None:
    """The commit of the folder of contracts; None without such a folder, or if it is in no repository."""
    return commit_of_folder(lake, lake.settings.contracts)


def commit_of_folder(lake: Lake, folder: Path) -> str | None:
    """The commit of ``folder`` as it is checked out, with :data:`MODIFIED` if files in it differ; None if it is not known."""
    if lake.settings.code_commit:
        return lake.settings.code_commit
    return _of_folder(str(folder.absolute()), int(time.monotonic() // _SECONDS)) if folder.is_dir() else None


@lru_cache(maxsize=16)
def _of_folder(folder: str, _: int) -> str | None:
    """The answer is kept for a few seconds, because a run publishes many times."""
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return None
    return commit[:_LENGTH] + (MODIFIED if _git(folder, "status", "--porcelain", "--", ".") else "")


def _git(folder: str, *words: str) -> str | None:
    """What git prints about a folder; None if git is missing or the folder is in no repository."""
    command = ["git", "-C", folder, *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
