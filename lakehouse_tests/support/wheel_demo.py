"""The README's demo, run by the built wheel in an environment of its own: once for all workers of a test run.

The environment holds the wheel and what it requires, and nothing else. Requirements are hard links to the files of the
environment in which the tests run: pip would unpack the same gigabyte once more.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lakehouse_tests.support.cli import inherited

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

CHECKOUT = Path(__file__).parents[2]


@dataclass(frozen=True)
class WheelDemo:
    """What the demo left: a folder with its lake, and what it printed."""

    folder: Path

    @property
    def wheel(self) -> Path:
        [wheel] = (self.folder / "source" / "dist").glob("lakehouse-*.whl")
        return wheel

    @property
    def stdout(self) -> str:
        return (self.folder / "stdout").read_text()

    @property
    def stderr(self) -> str:
        return (self.folder / "stderr").read_text()

    def copy_to(self, home: Path) -> None:
        """Put a copy of the lake into ``home / "lake"``, to be changed as a test likes."""
        shutil.copytree(self.folder / "home", home, dirs_exist_ok=True)


def wheel_demo(temporary: pytest.TempPathFactory) -> WheelDemo:
    """Build the wheel, install it, and run its demo, unless another module or worker of this test run has done so."""
    base = temporary.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / "wheel_demo"
    with FileLock(shared / "wheel_demo.lock"):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=shared) as unfinished:
                _build(Path(unfinished))
                shutil.copytree(unfinished, folder, ignore=shutil.ignore_patterns("environment"))
    return WheelDemo(folder)


def _build(folder: Path) -> None:
    source, home, environment = (folder / name for name in ("source", "home", "environment"))
    wheel = _wheel(source)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    pip = (sys.executable, "-m", "pip", "--python", environment / "bin" / "python")
    _outside_the_checkout(*pip, "install", "--quiet", "--no-deps", wheel, folder=source)
    _link_requirements(environment)
    _outside_the_checkout(*pip, "check", folder=source)
    home.mkdir()
    demo = (environment / "bin" / "lakehouse", "demo", "--all")
    done = _outside_the_checkout(*demo, folder=home, LAKEHOUSE_ROOT=str(home / "lake"), COLUMNS="200")
    (folder / "stdout").write_text(done.stdout)
    (folder / "stderr").write_text(done.stderr)


def _wheel(source: Path) -> Path:
    """The wheel, built from a copy: setuptools leaves files in the folder that it builds from."""
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, source)
    for name in ("lakehouse", "lakehouse_tests"):
        shutil.copytree(CHECKOUT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    _outside_the_checkout(*(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", "dist", "."), folder=source)
    return WheelDemo(source.parent).wheel


def _link_requirements(environment: Path) -> None:
    """Put everything into the environment that its ``lakehouse`` requires, directly or not."""
    [packages] = environment.glob("lib/python*/site-packages")
    [installed] = metadata.distributions(name="lakehouse", path=[str(packages)])
    waiting, linked = list(_requirements(installed, set())), set[tuple[str, frozenset[str]]]()
    while waiting:
        requirement = waiting.pop()
        name = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if name in linked:
            continue
        linked.add(name)
        distribution = metadata.distribution(requirement.name)
        for file in distribution.files or ():
            target = packages / file
            if ".." not in file.parts and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                _link(Path(str(distribution.locate_file(file))), target)
        waiting += _requirements(distribution, requirement.extras)


def _requirements(distribution: metadata.Distribution, extras: set[str]) -> Iterator[Requirement]:
    """What a distribution requires on this machine."""
    for text in distribution.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement


def _link(file: Path, target: Path) -> None:
    try:
        target.hardlink_to(file)
    except OSError:  # another file system
        shutil.copy2(file, target)


def _outside_the_checkout(*command: str | Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program that can import nothing of the checkout."""
    kept = {name: value for name, value in inherited().items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=kept | environment, check=False)
    assert done.returncode == 0, done.stderr
    return done
