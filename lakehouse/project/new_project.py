"""Makes a small project in a folder: contracts of an example, two of its files, settings, and the files for Dagster.

Belongs here: the files of a new project. Afterwards they belong to the user; nothing reads them from here.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_ENV = """\
# The settings of this project; docs/settings.md lists all of them.
LAKEHOUSE_ROOT=lakehouse_data
LAKEHOUSE_CONTRACTS=contracts
LAKEHOUSE_BUNDLED_CONTRACTS=false
"""
_IGNORED = "lakehouse_data/\ndagster_home/*\n!dagster_home/dagster.yaml\n"
_ORDERS = """\
order_id,store,ordered_at,amount,op
1001,north,2024-11-04T09:12:00Z,120.00,insert
1002,north,2024-11-04T17:40:00Z,80.00,insert
1003,south,2024-11-05T10:05:00Z,45.50,insert
1004,south,2024-11-05T18:30:00Z,210.00,insert
1005,north,2024-11-06T11:00:00Z,99.90,insert
"""
_CORRECTED = """\
order_id,store,ordered_at,amount,op
1002,north,2024-11-04T17:40:00Z,112.00,correct
1006,south,2024-11-04T20:15:00Z,30.00,insert
1004,south,,,delete
"""


class ProjectError(LakehouseError):
    """The project cannot be created in the folder; nothing was written. The message names the conflicting file."""


#: Worked examples, by name: their folders among the templates, with the first commands.
EXAMPLES = {
    "orders": "lakehouse run contracts/orders.yaml samples/orders.csv",
    "late_arriving_reprocess": "lakehouse run contract.yaml events_run1.csv",
}


def create(folder: Path, example: str = "orders") -> list[Path]:
    """Write the files of a new project, or of a worked example.

    :param example: one of :data:`EXAMPLES`.
    :returns: the files, in reading order for a newcomer.
    :raises ProjectError: if one of the files exists, or the example is unknown.
    """
    if example not in EXAMPLES:
        raise ProjectError(f"there is no example {example!r}; known examples are {', '.join(EXAMPLES)}; nothing was written")
    templates = resources.files("lakehouse.project") / "templates"
    if example != "orders":
        own = sorted((file.name, file.read_text(encoding="utf-8")) for file in (templates / example).iterdir())
        env = _ENV.replace("LAKEHOUSE_CONTRACTS=contracts", "LAKEHOUSE_CONTRACTS=.")
        dagster = {"dagster_home/dagster.yaml": (templates / "dagster.yaml").read_text(encoding="utf-8")}
        return _written(folder, {**dict(own), ".env": env, **dagster, ".gitignore": _IGNORED})
    texts = {
        "contracts/orders.yaml": (templates / "orders.yaml").read_text(encoding="utf-8"),
        "contracts/orders_daily.yaml": (templates / "orders_daily.yaml").read_text(encoding="utf-8"),
        "samples/orders.csv": _ORDERS,
        "samples/orders_corrected.csv": _CORRECTED,
        ".env": _ENV,
        "workspace.yaml": (templates / "workspace.yaml").read_text(encoding="utf-8"),
        "dagster_home/dagster.yaml": (templates / "dagster.yaml").read_text(encoding="utf-8"),
        ".gitignore": _IGNORED,
    }
    return _written(folder, texts)


def _written(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    in_the_way = [name for name in texts if (folder / name).exists()]
    if in_the_way:
        msg = f"{folder / in_the_way[0]} exists: make the project in an empty folder; nothing was written"
        raise ProjectError(msg)
    for name, text in texts.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return [folder / name for name in texts]
