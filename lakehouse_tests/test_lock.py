"""The lock file holds a version within each range of ``pyproject.toml``, and names no machine."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest
import tomli
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).parents[1]
LINES = [line for line in (CHECKOUT / "requirements.lock").read_text().splitlines() if line and not line.lstrip().startswith("#")]
LOCKED = {
    canonicalize_name(requirement.name): requirement
    for requirement in map(Requirement, LINES)
    if requirement.marker is None or requirement.marker.evaluate()
}
PROJECT = tomli.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
DECLARED = [
    Requirement(line) for line in chain(PROJECT["dependencies"], chain.from_iterable(PROJECT["optional-dependencies"].values()))
]


@pytest.mark.parametrize("declared", DECLARED, ids=str)
def test_each_range_of_the_project_has_a_locked_version_in_it(declared: Requirement) -> None:
    locked = LOCKED[canonicalize_name(declared.name)]
    [pin] = locked.specifier
    assert pin.operator == "=="
    assert pin.version in declared.specifier


def test_no_line_names_an_index_or_a_path() -> None:
    text = (CHECKOUT / "requirements.lock").read_text()
    assert not re.search(r"://|--|@ |\s/|^/", re.sub(r"^#.*$", "", text, flags=re.MULTILINE), re.MULTILINE)
