"""A missing requirement is reported in one line with the way out, before any Spark starts."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from lakehouse.lake import Lake
from lakehouse.settings import Settings
from lakehouse.spark.jars import SetupProblem, delta_jars, delta_modules, java

if TYPE_CHECKING:
    from pathlib import Path

UNREACHABLE = """
<ivysettings>
  <settings defaultResolver="nowhere"/>
  <resolvers><ibiblio name="nowhere" m2compatible="true" root="http://127.0.0.1:9/"/></resolvers>
</ivysettings>
"""


def java_reporting(folder: Path, text: str) -> Path:
    """A Java home whose java prints this."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    program.chmod(0o755)
    return folder


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupProblem, match=r"^Java was not found: install a JDK 17 or 21 and put it on the PATH"):
        java()


@pytest.mark.parametrize("release", ["1.8.0_392", "11.0.21", "25"])
def test_a_java_that_spark_does_not_run_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, release: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_reporting(tmp_path, f'openjdk version "{release}" 2023-10-17')))
    with pytest.raises(SetupProblem, match=rf"^Java {release} at .* will not do: Spark 4.2 runs on Java 17 or 21"):
        java()


@pytest.mark.parametrize("release", ["17.0.9", "21"])
def test_a_java_that_it_runs_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, release: str) -> None:
    home = java_reporting(tmp_path, f'openjdk version "{release}" 2023-10-17')
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java() == str(home / "bin" / "java")


def test_jars_in_the_named_folder_are_taken_from_there(tmp_path: Path) -> None:
    expected = [tmp_path / f"{name}-{release}.jar" for name, release in delta_modules()]
    for jar in expected:
        jar.touch()
    assert delta_jars(Lake(Settings(jars=tmp_path))) == expected


@pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java to fetch with")
def test_a_repository_that_cannot_be_reached(tmp_path: Path) -> None:
    ivy = tmp_path / "ivysettings.xml"
    ivy.write_text(UNREACHABLE)
    with pytest.raises(SetupProblem, match=r"could not be fetched from the Maven repository .*LAKEHOUSE_IVY_SETTINGS") as problem:
        delta_jars(Lake(Settings(jars=tmp_path / "jars", ivy_settings=ivy)))
    assert "\n" not in str(problem.value)
    assert not list((tmp_path / "jars").iterdir()), "nothing half-fetched is left"
