"""A lake that is driven by typed commands, with a fixed clock for each: contracts, files, decisions, and what was printed."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from lakehouse import locations
from lakehouse.cli import console
from lakehouse.cli.program import app
from lakehouse.contracts import Catalog, load_catalog
from lakehouse.contracts.series import Series
from lakehouse.lake import Lake
from lakehouse.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from lakehouse_tests.support.surfaces.said import Said


@dataclass
class TypedLake:
    """The lake.

    :param spark: the environment of the Spark that its commands use.
    :param truth: by metric and period what a person says who knows what happened.
    :param earlier: the same as of earlier times, by metric, period and time.
    :param closing_lines: what ``lakehouse run`` printed of the versions that it published, oldest first.
    """

    folder: Path
    contracts: Mapping[str, str]
    spark: Mapping[str, str]
    truth: Mapping[tuple[str, str], Said] = field(default_factory=dict)
    earlier: Mapping[tuple[str, str, str], Said] = field(default_factory=dict)
    closing_lines: list[str] = field(default_factory=list)
    delivered: int = 0
    now: str = "2024-11-01T00:00:00Z"

    def __post_init__(self) -> None:
        for folder in ("contracts", "dagster", "files"):
            (self.folder / folder).mkdir()
        (self.folder / "dagster" / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
        for name, text in self.contracts.items():
            (self.folder / "contracts" / f"{name}.yaml").write_text(text)

    @property
    def lake(self) -> Lake:
        """The settings at the time of the last command."""
        return Lake(Settings())

    @property
    def catalog(self) -> Catalog:
        return load_catalog(self.folder / "contracts", bundled=False)

    def numbers(self) -> list[tuple[str, str]]:
        """By metric and period every number that the lake has, and the windows that the truth is about."""
        published = []
        for metric in self.catalog.metrics.values():
            for series in (Series(metric), *Series(metric).rollups):
                table = locations.gold(self.lake, series).read(["period"])
                published += [] if table is None else [(metric.name, name) for name in sorted(set(table["period"].to_pylist()))]
        return [*published, *(key for key in self.truth if key not in published)]

    @contextmanager
    def used(self) -> Iterator[TypedLake]:
        """The environment of its commands."""
        environment = {
            "LAKEHOUSE_ROOT": f"{self.folder / 'lake'}",
            "LAKEHOUSE_CONTRACTS": f"{self.folder / 'contracts'}",
            "LAKEHOUSE_BUNDLED_CONTRACTS": "false",
            "LAKEHOUSE_SPARK_PROFILE": "large",
            "LAKEHOUSE_NOW": self.now,
            "DAGSTER_HOME": f"{self.folder / 'dagster'}",
            "COLUMNS": "250",
        }
        with pytest.MonkeyPatch.context() as patched:
            for name, value in {**environment, **self.spark}.items():
                patched.setenv(name, value)
            # A console that was made while COLUMNS was set keeps that width.
            patched.setattr(console.out, "_width", int(environment["COLUMNS"]))
            yield self

    def at(self, moment: str) -> TypedLake:
        """Set the clock."""
        os.environ["LAKEHOUSE_NOW"] = self.now = moment
        return self

    def typed(self, *arguments: str, codes: Collection[int] = (0,)) -> str:
        """What a command prints."""
        done = CliRunner().invoke(app, list(arguments))
        assert done.exit_code in codes, f"{' '.join(arguments)}: {done.output}\n{done.exception!r}"
        return done.stdout

    def run(self, source: str, header: str, *lines: str) -> str:
        """Deliver a file by ``lakehouse run``; its exit code is 1 while a number is held."""
        self.delivered += 1
        file = self.folder / "files" / f"{source}_{self.delivered}.csv"
        file.write_text("\n".join([header, *lines]) + "\n")
        printed = self.typed("run", source, f"{file}", codes=(0, 1))
        self.closing_lines += [line for line in printed.splitlines() if ": " in line and "_v2" in line.split(" ")[0]]
        return printed

    def land(self, source: str, day: str, header: str, *lines: str) -> None:
        """Put the file of an arrival day into landing, for ``lakehouse replay``."""
        file = self.folder / "landing" / source / f"arrival_date={day}.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join([header, *lines]) + "\n")
