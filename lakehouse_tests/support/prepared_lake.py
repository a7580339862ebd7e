"""Lakes that many tests start from: each is built once a process, and every test gets a copy of its own.

Building takes a second or more for each commit, a copy some milliseconds. A test may write to its copy as it likes.
"""

from __future__ import annotations

from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from datetime import datetime

    from lakehouse.lake import Lake

#: By what was built: the folder, the clock at the end, and what the builder returned.
_TEMPLATES: dict[Hashable, tuple[TemporaryDirectory[str], datetime | None, Any]] = {}


def prepare(lake: Lake, key: Hashable, build: Callable[[Lake], Any]) -> Any:
    """Fill the empty lake of ``settings`` as ``build`` does, and set its clock as ``build`` leaves it.

    :param key: names all that decides what is built; ``build`` runs once for each.
    :returns: what ``build`` returned: the same object every time, so change nothing in it.
    """
    if key not in _TEMPLATES:
        folder = TemporaryDirectory(prefix="lake")
        template = lake.with_settings(root=f"{folder.name}/lake")
        result = build(template)
        _TEMPLATES[key] = folder, template.settings.now, result
    folder, now, result = _TEMPLATES[key]
    copytree(Path(folder.name, "lake"), lake.root, dirs_exist_ok=True)
    lake.settings.now = now
    return result
