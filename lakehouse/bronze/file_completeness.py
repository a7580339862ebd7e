"""Whether a landing file is complete: whether it is still being written, and whether it is as its manifest lists it.

A file counts as stable when two observations at least ``settle_seconds`` apart show the same size and modification time; only the
observer's clock is used. The modification time alone proves nothing: copying tools set an old one while they write, and clocks
differ. In an object store, where a file appears as a whole, it is stable at once. Observations are stored as tokens of file and
state, a few bytes each, and only for pending files.

A manifest is in the folder of the files that it lists. In JSON it is a list of objects, or an object with such a list under
``files``; in CSV it has a header. ``file`` is the name of the file; ``bytes``, ``rows`` and ``sha256`` are optional measures of
its content; other keys are ignored. Rows are records without a header, as Bronze counts them.

Which files may be ingested is decided in ``pending_files``.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from posixpath import dirname, join
from typing import TYPE_CHECKING, Any

from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_TOKEN_BYTES = 6


@dataclass(frozen=True)
class Observations:
    """The time since which each file has been observed in its present state, by the token of file and state."""

    since: Mapping[str, datetime] = field(default_factory=dict)

    def record(self, files: Collection[tuple[str, str]], now: datetime) -> Observations:
        """The observations after a further one.

        :param files: the name and the state of each file that exists now; other files are dropped.
        """
        since = {}
        for name, state in files:
            key = token(name, state)
            earlier = self.since.get(key)
            since[key] = earlier if earlier is not None and earlier <= now else now  # starts over if a clock was set back
        return Observations(since)

    def is_stable(self, name: str, state: str, now: datetime, patience: timedelta) -> bool:
        """Whether the file has been observed in this state for at least ``patience``."""
        since = self.since.get(token(name, state))
        return since is not None and now - since >= patience

    def to_json(self) -> dict[str, str]:
        """The tokens by time, in compact JSON."""
        by_time: dict[datetime, list[str]] = defaultdict(list)
        for key, since in self.since.items():
            by_time[since].append(key)
        return {since.isoformat(): "".join(sorted(tokens)) for since, tokens in sorted(by_time.items())}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Observations:
        """The observations that :meth:`to_json` has written.

        :raises ValueError: for anything else.
        """
        size = len(token("", ""))
        since: dict[str, datetime] = {}
        for time, tokens in document.items():
            observed = datetime.fromisoformat(time)
            since |= {tokens[begin : begin + size]: observed for begin in range(0, len(tokens), size)}
        return Observations(since)


def token(name: str, state: str) -> str:
    """Eight characters for a file and its state; two tokens collide once in 280 million million times."""
    digest = hashlib.sha256(f"{name}\0{state}".encode()).digest()
    return base64.urlsafe_b64encode(digest[:_TOKEN_BYTES]).decode()


_SHA256 = re.compile(r"[0-9a-f]{64}")
#: The optional fields of an entry.
MEASURES = ("bytes", "rows", "sha256")


class ManifestProblem(LakehouseError):  # noqa: N818 (it is reported to people by this name)
    """A manifest that cannot be used. The message names the manifest, the entry and the field, and the remedy."""


@dataclass(frozen=True)
class ManifestEntry:
    """A manifest's entry about one file; ``file`` is its name below the landing folder."""

    manifest: str
    file: str
    measures: Mapping[str, int | str] = field(default_factory=dict)

    def violations(self, measures: Mapping[str, int | str]) -> list[str]:
        """The differences of a file from the entry, one sentence per measure; empty if there are none.

        :param measures: the measures of the file itself.
        """
        return [
            f"{name} is {measures[name]}, and {self.manifest} says {expected}; have the file or the manifest sent again"
            for name, expected in self.measures.items()
            if measures[name] != expected
        ]


def manifest_entries(manifest: str, content: bytes) -> list[ManifestEntry]:
    """The entries of a manifest.

    :param manifest: its name below the landing folder; it ends in .json or .csv.
    :raises ManifestProblem: when it cannot be read, or lists a file twice.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ManifestProblem(f"{manifest}: not valid UTF-8 at byte {error.start + 1}; have it sent again") from None
    entries = _from_json(manifest, text) if manifest.endswith(".json") else _from_csv(manifest, text)
    named: dict[str, ManifestEntry] = {}
    for where, entry in entries:
        parsed = _entry(manifest, where, entry)
        if parsed.file in named:
            raise ManifestProblem(f"{manifest}: {where}: file: {parsed.file} is named twice; have it sent again")
        named[parsed.file] = parsed
    return list(named.values())


def _from_json(manifest: str, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ManifestProblem(f"{manifest}: not JSON ({error}); have it sent again") from None
    entries = document.get("files") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        raise ManifestProblem(f"{manifest}: files: a list of files is expected; have it sent again")
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise ManifestProblem(f"{manifest}: files.{number}: an object is expected, not {entry!r}; have it sent again")
        yield f"files.{number}", entry


def _from_csv(manifest: str, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        if "file" not in (reader.fieldnames or ()):
            raise ManifestProblem(f"{manifest}: line 1: column file is missing; have it sent again")
        for entry in reader:
            if None in entry or None in entry.values():
                raise ManifestProblem(
                    f"{manifest}: line {reader.line_num}: its number of fields differs from the header; have it sent again"
                )
            yield f"line {reader.line_num}", {name: value or None for name, value in entry.items()}
    except csv.Error as error:
        raise ManifestProblem(f"{manifest}: line {reader.reader.line_num}: not CSV ({error}); have it sent again") from None


def _entry(manifest: str, where: str, entry: Mapping[str, Any]) -> ManifestEntry:
    """One entry, from :func:`_from_json` or :func:`_from_csv`."""
    name = entry.get("file")
    if not isinstance(name, str) or not name:
        raise ManifestProblem(f"{manifest}: {where}: file: is missing; have the manifest sent again")
    if name.startswith("/") or ".." in name.split("/"):
        raise ManifestProblem(f"{manifest}: {where}: file: {name!r} lies outside the manifest's folder; have it sent again")
    measures: dict[str, int | str] = {}
    for measure in MEASURES:
        value = entry.get(measure)
        if value is not None:
            measures[measure] = (
                _digest(manifest, where, value) if measure == "sha256" else _count(manifest, where, measure, value)
            )
    return ManifestEntry(manifest, join(dirname(manifest), name.removeprefix("./")), measures)


def _count(manifest: str, where: str, measure: str, value: Any) -> int:
    text = value.strip() if isinstance(value, str) else f"{value}"
    if isinstance(value, bool) or not text.isascii() or not text.isdigit():
        raise ManifestProblem(f"{manifest}: {where}: {measure}: {value!r} is no count; have the manifest sent again")
    return int(text)


def _digest(manifest: str, where: str, value: Any) -> str:
    text = f"{value}".strip().lower()
    if not _SHA256.fullmatch(text):
        raise ManifestProblem(f"{manifest}: {where}: sha256: {value!r} is no SHA-256 in hex; have the manifest sent again")
    return text
