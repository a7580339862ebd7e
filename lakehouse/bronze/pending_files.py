"""Determines which landing files are pending and may be ingested: unseen, stable, complete, and as their manifest lists them.

Files are listed and read by ``landing``; manifests are parsed in ``file_completeness``, which also judges whether a file is still
being written. The files are ingested by ``ingest``, in runs that the landing sensor requests.

The files that one ``lakehouse run`` delivered together are recorded in the landing folder, similar to a manifest. The command
itself, the same command after a stop, and the landing sensor thus all ingest them as the same delivery. Only local landing
folders have such records. Which rows count among several deliveries belongs to ``dispositions``.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.bronze import landing as bronze_landing
from lakehouse.bronze.file_completeness import ManifestEntry, ManifestProblem, manifest_entries
from lakehouse.bronze.file_formats import FileProblem
from lakehouse.ledger import ingestions
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import date, datetime

    from lakehouse.bronze.file_completeness import Observations
    from lakehouse.bronze.landing import Fingerprint, LandingFile, Listing
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.ledger.ingestions import FileIdentity, Ingestion

_SHOWN = 5
#: The files that a run tries again.
_UNSEEN = {"held", "gone"}


@dataclass(frozen=True)
class IngestRequest:
    """A run of Bronze for files of an arrival day: each file's state by its name.

    ``cause`` is the same for the same files in the same state. ``known`` is set if any of the files has already been held in this
    state: a run for the same cause need not be repeated. ``bytes`` is the size of the files.
    """

    cause: str
    files: Mapping[str, str]
    known: bool
    bytes: int = 0


@dataclass(frozen=True)
class LandingScan:
    """The requests by arrival day, the names of files that are not stable yet, and remarks for people.

    ``unfinished`` gives, by arrival day, why stable files wait for a marker or for other files of their manifest.
    """

    requests: dict[date, IngestRequest]
    observations: Observations
    unsettled: list[str]
    remarks: list[str]
    unfinished: dict[date, str] = field(default_factory=dict)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do until a file or the ledger changes, however much time passes."""
        return not self.requests and not self.unsettled


@dataclass(frozen=True)
class Readiness:
    """The files of an arrival day that may be ingested, and the reasons (for people) why the others may not.

    ``expected`` holds the manifest's entry of each of these files; it is empty where the contract requires no manifest.
    """

    files: Sequence[LandingFile]
    waiting: list[str] = field(default_factory=list)
    expected: Mapping[str, ManifestEntry] = field(default_factory=dict)


@dataclass(frozen=True)
class UnfinishedFiles:
    """The files of an arrival day that are not ingested, each as a sentence for people.

    :param held: files that cannot be ingested as they are, and files that wait for a marker or their manifest.
    :param left: files that could not be read, or were being written.
    :param left_out: files whose names assign them to no arrival day of the source.
    """

    held: Sequence[str] = ()
    left: Sequence[str] = ()
    left_out: Sequence[str] = ()


def unseen_files(files: Iterable[LandingFile], entries: Iterable[Ingestion]) -> list[LandingFile]:
    """The files that are not recorded in their present state; a file that was held counts as unseen, unless it was given up."""
    listed = {file.name: file for file in files}
    recorded = {entry.identity for entry in entries if entry.source_file in listed and entry.status not in _UNSEEN}
    return [file for file in listed.values() if file.identity not in recorded]


def scan_landing(
    lake: Lake,
    contract: SourceContract,
    listing: Listing,
    observations: Observations,
    now: datetime,
    sources: Collection[SourceContract],
) -> LandingScan:
    """Judge the files in landing.

    :param sources: the sources of the deployment, whose files may be in the same folder.
    :param observations: the observations of earlier scans.
    :param now: the time of this scan, by the same clock as in earlier scans.
    """
    entries = ingestions.all_of(lake, contract.dataset)
    held = {entry.identity for entry in ingestions.still_held(entries)}
    by_manifest = contract.source.complete_when is not None and contract.source.complete_when.manifest is not None
    pending: dict[date, list[LandingFile]] = defaultdict(list)
    for file in unseen_files(listing.files, entries):
        if by_manifest or file.identity not in held:
            pending[file.arrival_date].append(file)
    watched = [file for day, files in pending.items() for file in (*files, *listing.completion_markers.get(day, ()))]
    unmatched = listing.unmatched_complaints(lake, contract, sources)
    states = [(name, listing.unmatched[name]) for name in unmatched]
    observations = observations.record([*((file.name, file.state) for file in watched), *states], now)
    in_store = "://" in lake.landing_of(contract.dataset)  # where a file appears as a whole
    patience = timedelta(seconds=0 if in_store else lake.settings.settle_seconds)
    stable = {file for file in watched if observations.is_stable(file.name, file.state, now, patience)}
    unstable = [name for name, state in states if not observations.is_stable(name, state, now, patience)]
    requests: dict[date, IngestRequest] = {}
    remarks = [*listing.complaints, *(text for name, text in unmatched.items() if name not in unstable)]
    unfinished: dict[date, str] = {}
    for day, files in sorted(pending.items()):
        markers = [file for file in listing.completion_markers.get(day, ()) if file in stable]
        if not markers and listing.completion_markers.get(day):
            continue
        ready = check_readiness(lake, contract, day, [file for file in files if file in stable], markers, entries)
        remarks += ready.waiting
        if ready.waiting:
            unfinished[day] = "; ".join(ready.waiting)
        if ready.files:
            requests[day] = _request(contract, day, ready.files, markers if by_manifest else [], held)
    for entry in gone_files(lake, contract):  # any run of the source records it
        cause = f"{contract.dataset}:{entry.arrival_date}:gone:{entry.source_file}:{entry.recorded_at.isoformat()}"
        requests.setdefault(entry.arrival_date, IngestRequest(cause, {}, known=False))
    unsettled = [*(file.name for file in watched if file not in stable), *unstable]
    return LandingScan(requests, observations, unsettled, remarks, unfinished)


def gone_files(lake: Lake, contract: SourceContract) -> list[Ingestion]:
    """The files that are recorded as held, and are no longer in landing: nothing is known to be unread because of them."""
    held = [] if contract.source.kafka else ingestions.still_held(ingestions.all_of(lake, contract.dataset))
    absent = bronze_landing.absent_names(lake, contract, [entry.source_file for entry in held]) if held else set()
    return [entry for entry in held if entry.source_file in absent]


def unfinished(lake: Lake, contract: SourceContract, day: date, sources: Collection[SourceContract]) -> UnfinishedFiles:
    """The files of an arrival day that are not ingested, after a run of Bronze for it.

    :param sources: as in :func:`scan_landing`.
    """
    entries, listing = ingestions.all_of(lake, contract.dataset), bronze_landing.listing_of_days(lake, contract, [day])
    held = [entry for entry in ingestions.still_held(entries) if entry.arrival_date == day]
    known = {entry.identity for entry in held}
    files = [file for file in unseen_files(listing.files, entries) if file.arrival_date == day]
    ready = check_readiness(lake, contract, day, files, listing.completion_markers.get(day, []), entries)
    left = [_why_left(lake, contract, file) for file in ready.files if file.identity not in known]
    left_out = [*listing.complaints, *listing.unmatched_complaints(lake, contract, sources).values()]
    return UnfinishedFiles([*(entry.message or entry.source_file for entry in held), *ready.waiting], left, left_out)


def _why_left(lake: Lake, contract: SourceContract, file: LandingFile) -> str:
    try:
        with bronze_landing.open_file(lake, contract, file.path) as stream:
            stream.read(1)
    except OSError as problem:
        return f"{file.name}: it cannot be read ({problem.strerror or problem})"
    return f"{file.name}: it was being written or replaced, or waits for another file of its manifest"


def check_readiness(
    lake: Lake,
    contract: SourceContract,
    day: date,
    files: Sequence[LandingFile],
    markers: Sequence[LandingFile],
    entries: Collection[Ingestion],
) -> Readiness:
    """Judge the files of a day without reading them.

    :param files: the files that have not been ingested in their present state.
    :param markers: the day's completion markers or manifests.
    :param entries: every recorded delivery; an ingested file counts as present even if it is gone from landing.
    """
    complete = contract.source.complete_when
    if complete is None or not files:
        return Readiness(files)
    if not markers:
        kind = "manifest" if complete.manifest else "marker"
        name = complete.pattern.replace("{arrival_date}", f"{day}")
        return Readiness([], [f"{_names(files)} of {day} wait for the {kind} {name}"])
    if complete.marker:
        return Readiness(files)
    return _named_by_manifests(lake, contract, files, markers, entries)


def manifest_violations(
    lake: Lake, contract: SourceContract, ready: Readiness, fingerprints: Mapping[str, Fingerprint]
) -> dict[str, str]:
    """The reason for each file that differs from its manifest entry or cannot be compared with it.

    :param fingerprints: the fingerprints of all files that are ready.
    """
    violations = {}
    for file in ready.files:
        entry = ready.expected.get(file.name)
        if entry is not None:
            sentences = _violations(lake, contract, file, entry, fingerprints[file.name])
            if sentences:
                violations[file.name] = "; ".join(sentences)
    return violations


def _request(
    contract: SourceContract,
    day: date,
    files: Sequence[LandingFile],
    manifests: Iterable[LandingFile],
    held: set[FileIdentity],
) -> IngestRequest:
    """A run for these files; if manifests list them, a changed manifest gives another cause."""
    states = "|".join(f"{file.name}:{file.state}" for file in (*files, *manifests))
    cause = f"{contract.dataset}:{day}:{hashlib.sha256(states.encode()).hexdigest()[:16]}"
    known, size = any(file.identity in held for file in files), sum(file.size or 0 for file in files)
    return IngestRequest(cause, {file.name: file.state for file in files}, known, size)


def _named_by_manifests(
    lake: Lake,
    contract: SourceContract,
    files: Sequence[LandingFile],
    manifests: Sequence[LandingFile],
    entries: Collection[Ingestion],
) -> Readiness:
    """The files that the manifests list, once all of them are present."""
    expected: dict[str, ManifestEntry] = {}
    waiting = []
    for manifest in manifests:
        with bronze_landing.open_file(lake, contract, manifest.path) as stream:
            content = stream.read()
        try:
            expected |= {entry.file: entry for entry in manifest_entries(manifest.name, content)}
        except ManifestProblem as problem:
            waiting.append(f"{problem}")
    present = {file.name for file in files}
    recorded = {entry.source_file: entry for entry in entries if entry.is_in_bronze}
    for name, entry in expected.items():
        delivery = recorded.get(name)
        content_hash = None if delivery is None else delivery.content_hash
        if name not in present and (content_hash is None or entry.measures.get("sha256", content_hash) != content_hash):
            waiting.append(f"{entry.manifest} names {name}, which is not there{' with that sha256' if delivery else ''}")
    if waiting:
        return Readiness([], [*waiting, f"{_names(files)} wait for that"])
    unnamed = [file for file in files if file.name not in expected]
    remarks = [f"{_names(unnamed)}: no manifest names it"] if unnamed else []
    return Readiness([file for file in files if file.name in expected], remarks, expected)


def _violations(
    lake: Lake, contract: SourceContract, file: LandingFile, entry: ManifestEntry, fingerprint: Fingerprint
) -> list[str]:
    if fingerprint.problem:
        return [fingerprint.problem]
    measures: dict[str, int | str] = {"bytes": fingerprint.bytes, "sha256": fingerprint.content_hash}
    if "rows" in entry.measures:
        try:
            measures["rows"] = bronze_landing.count_records(lake, contract, file)
        except FileProblem as problem:
            return [f"{problem}"]
    return entry.violations(measures)


def _names(files: Sequence[LandingFile]) -> str:
    return join_limited([file.name for file in files], _SHOWN, " files")


#: Below the landing folder; no pattern matches a name that begins with a dot.
_RUNS = ".deliveries"


@dataclass(frozen=True)
class RunDelivery:
    """Files that were delivered together.

    :param name: its name in the ledger. It sorts after the name of the arrival day, and after those of earlier runs of the day.
    :param files: their names below the landing folder.
    """

    name: str
    files: tuple[str, ...]


def runs_of_day(lake: Lake, contract: SourceContract, day: date) -> list[RunDelivery]:
    """The deliveries of an arrival day, oldest first; empty where the contract defines deliveries differently."""
    folder = _folder_of_runs(lake, contract, day)
    if contract.materialization.delivery is not None or folder is None or not folder.is_dir():
        return []
    records = sorted(folder.glob("*.json"))
    return [
        RunDelivery(_name_of_run(path, day), tuple(json.loads(path.read_text(encoding="utf-8"))["files"])) for path in records
    ]


def record_run(lake: Lake, contract: SourceContract, day: date, files: Sequence[str]) -> None:
    """Record that files were delivered together, before they are copied to the landing folder.

    If they are the files of the newest delivery of the day, nothing is recorded: the command was repeated.
    """
    folder, known = _folder_of_runs(lake, contract, day), runs_of_day(lake, contract, day)
    if contract.materialization.delivery is not None or folder is None or (known and set(known[-1].files) == set(files)):
        return
    folder.mkdir(parents=True, exist_ok=True)
    number = len(known) + 1
    with tempfile.TemporaryDirectory(dir=folder) as partial:
        written = Path(partial, "record")
        written.write_text(json.dumps({"files": sorted(files)}), encoding="utf-8")
        while not _linked(written, folder / f"{number:04}.json"):  # another run has taken the number
            number += 1


def _linked(file: Path, name: Path) -> bool:
    try:
        os.link(file, name)
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        if name.exists():
            return False
        file.replace(name)
    return True


def _folder_of_runs(lake: Lake, contract: SourceContract, day: date) -> Path | None:
    landing = lake.landing_of(contract.dataset)
    return None if "://" in landing else Path(landing, _RUNS, contract.dataset, f"{day}")


def _name_of_run(path: Path, day: date) -> str:
    return f"{day} run {path.stem}"
