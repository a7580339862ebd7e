"""Results of mutants: one JSON line each, and the table of one or two runs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

KILLED, SURVIVED, TIMEOUT = "killed", "survived", "timeout"
_TOTAL = "all"


def read(path: Path) -> dict[str, dict[str, Any]]:
    """The results of a file by mutant; of a mutant with several, the last."""
    if not path.exists():
        return {}
    return {entry["key"]: entry for entry in map(json.loads, path.read_text(encoding="utf-8").splitlines())}


def append(path: Path, entry: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(entry) + "\n")


def table(runs: Sequence[Mapping[str, dict[str, Any]]], folders: Sequence[str]) -> str:
    """The numbers of each folder, side by side. A timeout counts as killed."""
    columns = ("mutants", KILLED, SURVIVED, TIMEOUT, "share")
    rows = [["folder", *(column for _ in runs for column in columns)]]
    for folder in (*folders, _TOTAL):
        row = [folder]
        for run in runs:
            counts = Counter(
                entry["outcome"] for entry in run.values() if folder in {_TOTAL, _folder_of(entry["module"], folders)}
            )
            share = f"{1 - counts[SURVIVED] / counts.total():.0%}" if counts.total() else "-"
            row += [str(counts.total()), *(str(counts[outcome]) for outcome in (KILLED, SURVIVED, TIMEOUT)), share]
        rows.append(row)
    lines = _aligned(rows)
    if len(runs) == 2:
        lines += ["", *_compared(*runs)]
    return "\n".join(lines)


def _compared(first: Mapping[str, dict[str, Any]], second: Mapping[str, dict[str, Any]]) -> Iterable[str]:
    both = first.keys() & second.keys()
    survived = [{key for key in both if run[key]["outcome"] == SURVIVED} for run in (first, second)]
    yield f"{len(both)} mutants are in both files."
    yield f"Survived in the first only: {len(survived[0] - survived[1])}"
    yield f"Survived in the second only: {len(survived[1] - survived[0])}"
    yield f"Survived in both: {len(survived[0] & survived[1])}"


def _folder_of(module: str, folders: Sequence[str]) -> str:
    """The one of ``folders`` that holds a module: paths of modules begin with the product's folder."""
    below = PurePosixPath(*PurePosixPath(module).parts[1:])
    return max((folder for folder in folders if PurePosixPath(folder) in below.parents), key=len, default="")


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]) for row in rows
    ]
