"""The mistakes that are found in some contract files of a deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.contracts import ContractError, load_catalog

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def mistakes_in(folder: Path, texts: Mapping[str, str]) -> list[str]:
    """Write contracts into a folder and load them; gives the mistakes, without the folder.

    :param texts: the content of each file, by its name without ``.yaml``.
    """
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    try:
        load_catalog(folder, bundled=False)
    except ContractError as error:
        return [mistake.removeprefix(f"{folder}/") for mistake in error.mistakes]
    return []
