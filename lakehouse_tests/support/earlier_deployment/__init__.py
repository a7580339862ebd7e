"""A small deployment made by an earlier version, for the test that a newer one continues with it without a command.

``deployment.tar.gz`` holds ``contracts/``, ``landing/`` and ``lake/`` as that version left them, and ``commit.txt`` with its
commit. ``make.py`` makes it; the numbers in it are worked out by hand in the test.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

ARCHIVE = Path(__file__).with_name("deployment.tar.gz")


def unpack(folder: Path) -> None:
    """Put the deployment into a folder; its tables have no absolute paths."""
    with tarfile.open(ARCHIVE) as archive:
        # Python before 3.10.12 and 3.11.4 has no filters.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
