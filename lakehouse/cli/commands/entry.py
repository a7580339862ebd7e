"""``lakehouse init``, ``infer`` and ``run``: a project, a contract from sample files, and files to numbers in one go."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.console import deployment, end_with_failed_checks, errors, out
from lakehouse.cli.number_report import print_run

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog
    from lakehouse.settings import Settings


def init(folder: Annotated[Path, typer.Argument(help="The folder; it is created if it does not exist.")] = Path()) -> None:
    """Make a small project that runs: contracts, sample files, settings, and what Dagster needs."""
    from lakehouse.project import new_project  # noqa: PLC0415

    for file in new_project.create(folder):
        out.print(f"{file}", highlight=False, soft_wrap=True)
    enter = "" if folder == Path() else f"cd {folder} && "
    out.print(f"\nNext: {enter}lakehouse run contracts/orders.yaml samples/orders.csv", highlight=False, soft_wrap=True)


def infer(
    files: Annotated[list[Path], typer.Argument(help="Sample files of one source: CSV, JSON lines or Parquet, also gzipped.")],
    dataset: Annotated[str, typer.Option(help="The name of the dataset; default: from the first file's name.")] = "",
    to: Annotated[Path | None, typer.Option(help="The folder for the contracts; default: the deployment's.")] = None,
) -> None:
    """Write a contract from sample files, and a first metric, with what is uncertain as comments."""
    from lakehouse.contracts import load_contract  # noqa: PLC0415 (`--help` need not wait for it)
    from lakehouse.project import contract_text, inference, samples  # noqa: PLC0415

    folder = to or deployment()[0].contracts
    missing = [file for file in files if not file.is_file()]
    if missing:
        msg = f"{missing[0]}: there is no such file"
        raise inference.InferenceError(msg)
    read_as = samples.source_of(files[0])
    inferred = inference.infer([samples.read(file, read_as) for file in files])
    name = dataset or contract_text.dataset_of(files[0].name)
    texts = {
        folder / f"{name}.yaml": contract_text.source_text(name, [file.name for file in files], inferred, read_as),
        folder / f"{name}_daily.yaml": contract_text.metric_text(name, inferred),
    }
    in_the_way = [file for file in texts if file.exists()]
    if in_the_way:
        msg = f"{in_the_way[0]} exists and is not overwritten: give another --dataset or --to"
        raise inference.InferenceError(msg)
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        file.write_text(text, encoding="utf-8")
        out.print(f"{file}", highlight=False, soft_wrap=True)
    for doubt in inferred.doubts:
        out.print(f"  ? {doubt}", style="yellow", highlight=False, soft_wrap=True)
    if inferred.event is not None:
        for file in texts:
            load_contract(file)
        out.print(f"\nNext: lakehouse run {next(iter(texts))} {files[0]}", highlight=False, soft_wrap=True)


def run(
    contract: Annotated[Path, typer.Argument(help="The source's contract file, or the name of its dataset.")],
    files: Annotated[list[Path], typer.Argument(help="Files that arrive today.")],
) -> None:
    """Ingest files and bring all numbers up to date in one go, and print what changed; starts Spark."""
    settings, catalog, source = _source_in(contract)
    from lakehouse.delta.table_cache import with_table_cache  # noqa: PLC0415 (Dagster and Spark load in seconds)
    from lakehouse.ledger import contracts_in_use  # noqa: PLC0415
    from lakehouse.orchestration.execution import single_run  # noqa: PLC0415
    from lakehouse.orchestration.execution.in_process import InProcess, local_instance  # noqa: PLC0415
    from lakehouse.project import delivery  # noqa: PLC0415

    today = settings.clock().date()
    delivered = delivery.deliver(settings, catalog.sources[source], files, today)
    settings = with_table_cache(settings.model_copy(update={"spark_long_lived": True}))
    notices = contracts_in_use.notices_of_source(settings, catalog.sources[source])
    with errors.status("ingesting, and publishing numbers"), local_instance() as instance:
        layers = InProcess(settings, catalog, instance)
        done = single_run.ingest(settings, catalog, source, today, delivered, layers)
    print_run(done, source)
    for notice in notices if done.rows else ():
        errors.print(notice, style="yellow", highlight=False, markup=False, soft_wrap=True)
    end_with_failed_checks(layers.failed_checks.values())
    if done.held or done.left:
        raise typer.Exit(1)


def _source_in(contract: Path) -> tuple[Settings, Catalog, str]:
    """The deployment and the dataset that a contract file, or a name, means.

    :raises typer.BadParameter: for an unknown one.
    """
    from lakehouse.contracts import SourceContract, load_catalog, load_contract  # noqa: PLC0415

    settings, catalog = deployment()
    if not contract.is_file():
        if f"{contract}" in catalog.sources:
            return settings, catalog, f"{contract}"
        known = ", ".join(sorted(catalog.sources)) or "none"
        msg = f"{contract} is neither a file nor a dataset; known datasets are {known}"
        raise typer.BadParameter(msg)
    loaded = load_contract(contract)
    if not isinstance(loaded, SourceContract):
        msg = f"{contract} is not the contract of a source; name that of the source"
        raise typer.BadParameter(msg)
    if catalog.sources.get(loaded.dataset) != loaded:
        settings = settings.model_copy(update={"contracts": contract.parent.absolute()})
        catalog = load_catalog(contract.parent, bundled=False)
        errors.print(f"using the contracts in {contract.parent}; set LAKEHOUSE_CONTRACTS for other commands", style="dim")
    return settings, catalog, loaded.dataset
