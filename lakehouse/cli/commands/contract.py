"""``lakehouse contract``: checks contract files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakehouse.cli.console import out

app = typer.Typer(help="Check contracts.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Check contracts."""


@app.command()
def check(files: Annotated[list[Path], typer.Argument(help="Contract files (YAML).")]) -> None:
    """Validate contracts; each mistake is reported with file, line and field."""
    from lakehouse.contracts import (  # noqa: PLC0415 (`--help` need not wait for it)
        ContractError,
        MetricContract,
        SourceContract,
        TrainingSetContract,
        check_files,
    )

    checked = check_files(files)
    for file, contract in checked.contracts.items():
        if isinstance(contract, SourceContract):
            out.print(
                f"{file}: source {contract.dataset}, {len(contract.model.fields)} fields, key {', '.join(contract.primary_key)}"
            )
            for note in contract.clocks.notes:
                out.print(f"{file}: {note}", soft_wrap=True)
            if unused := contract.materialization.for_lakelogic:
                keys = ", ".join(f"materialization.{name}" for name in unused)
                out.print(f"{file}: without effect: {keys}; LakeLogic follows them, here silver is a Delta table below the root")
        elif isinstance(contract, MetricContract):
            out.print(f"{file}: metric {contract.metric} over {contract.source}, {len(contract.measures)} measures")
        elif isinstance(contract, TrainingSetContract):
            about = f"of {contract.entity.source}, label of {contract.label.source}"
            out.print(f"{file}: training set {contract.name} {about}, {len(contract.features.names)} features")
        else:
            out.print(f"{file}: model {contract.name} of {contract.training_set}, trained by {contract.train}")
    for note in (*checked.notes, *checked.advice):
        out.print(note, soft_wrap=True)
    if checked.mistakes:
        raise ContractError(checked.mistakes)
