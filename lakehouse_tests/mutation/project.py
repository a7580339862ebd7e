"""What is mutated and tested, and copies of it: a mutant is written into a copy, never into the checkout."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_NOT_COPIED = shutil.ignore_patterns(
    *(".git", "__pycache__", "*.egg-info", "lakehouse_data", "spark-warehouse", "metastore_db", "build", "dist", "site"),
    *(".venv", ".hypothesis", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".import_linter_cache", ".mutants"),
)


@dataclass(frozen=True)
class Project:
    """A checkout. ``revision`` names the git revision that tests are taken from; None: from the checkout."""

    root: Path
    folders: tuple[str, ...]
    product: str = "lakehouse"
    tests: str = "lakehouse_tests"
    libraries: tuple[str, ...] = ()
    revision: str | None = None

    def copy_to(self, target: Path) -> None:
        """Copy the checkout, with the tests of ``revision``."""
        shutil.copytree(self.root, target, ignore=_NOT_COPIED, symlinks=True)
        if self.revision:
            shutil.rmtree(target / self.tests)
            command = ["git", "-C", str(self.root), "archive", self.revision, self.tests, "pyproject.toml"]
            archive = subprocess.run(command, capture_output=True, check=True).stdout
            with tarfile.open(fileobj=io.BytesIO(archive)) as files:
                files.extraction_filter = getattr(tarfile, "data_filter", None)  # Python before 3.10.12 and 3.11.4 has none
                files.extractall(target)
        # Bytecode knows its source by a hash instead of by time and size, also where it is written later: a mutant of the same
        # second and size is not taken for the original.
        compiled = [str(target / self.product), str(target / self.tests)]
        subprocess.run([sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", *compiled], check=False)
