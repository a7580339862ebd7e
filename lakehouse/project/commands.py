"""``lakehouse init``, ``infer``, ``run`` and ``contract``: from sample files to a project, a checked contract and numbers.

``init`` creates a project, ``infer`` infers a contract from samples, ``run`` turns files into numbers, and ``contract`` checks
contract files.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.console import end_of_update, errors, out, print_left_out, print_notices
from lakehouse.cli.number_report import print_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.project.inference import InferredSource
    from lakehouse.project.questions import Question, Sample


def init(
    folder: Annotated[Path, typer.Argument(help="The folder; it is created if it does not exist.")] = Path(),
    example: Annotated[
        str, typer.Option(help="A worked example: orders, or late_arriving_reprocess (a day that is sent again).")
    ] = "orders",
) -> None:
    """Create a small working project: contracts, sample files, settings, and the files for Dagster."""
    from lakehouse.project import new_project  # noqa: PLC0415

    for file in new_project.create(folder, example):
        out.print(f"{file}", highlight=False, soft_wrap=True)
    enter = "" if folder == Path() else f"cd {folder} && "
    out.print(f"\nNext: {enter}{new_project.EXAMPLES[example]}", highlight=False, soft_wrap=True)


def infer(
    files: Annotated[list[Path], typer.Argument(help="Sample files of one source: CSV, JSON lines or Parquet, also gzipped.")],
    dataset: Annotated[str, typer.Option(help="The name of the dataset; default: from the first file's name.")] = "",
    to: Annotated[Path | None, typer.Option(help="The folder for the contracts; default: the deployment's.")] = None,
    answer: Annotated[
        list[str] | None, typer.Option(help="An answer to a question, such as primary_key=order_id; may be repeated.")
    ] = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Take the default of each question, and mark it with a comment.")] = False,
) -> None:
    """Infer a contract from sample files, and a first metric; guesses are marked by comments.

    Open questions are asked. Without a terminal, the questions are printed, and the contract is written as a draft.
    """
    from lakehouse.contracts import load_contract  # noqa: PLC0415 (`--help` need not wait for it)
    from lakehouse.lake import Lake  # noqa: PLC0415
    from lakehouse.project import delivery, inference, new_project, questions  # noqa: PLC0415

    folder = to or Lake.open().settings.contracts  # other contracts may be broken
    for file in files:
        if reason := delivery.unreadable(file):
            msg = f"{file}: {reason}"
            raise questions.InferenceError(msg)
    read_as = inference.source_of(files[0])
    read = [inference.read(file, read_as) for file in files]
    name = dataset or new_project.dataset_of(files[0].name)
    inferred = _answered(read, name, answer or [], ask=not yes)
    unfinished = inferred.event is None or bool(inferred.questions and not yes)
    ending = ".yaml.draft" if unfinished else ".yaml"
    texts = {
        folder / f"{name}{ending}": new_project.source_text(name, [file.name for file in files], inferred, read_as),
        folder / f"{name}_daily{ending}": new_project.metric_text(name, inferred),
    }
    in_the_way = [file for file in texts if file.exists() and not unfinished]
    if in_the_way:
        msg = f"{in_the_way[0]} exists and is not overwritten: give another --dataset or --to"
        raise questions.InferenceError(msg)
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        file.write_text(text, encoding="utf-8")
        out.print(f"{file}", highlight=False, soft_wrap=True)
    for doubt in inferred.doubts:
        out.print(f"  ? {doubt}", style="yellow", highlight=False, soft_wrap=True)
    for question in inferred.questions if not unfinished else ():
        out.print(f"  ? {question.text} --yes took {question.default}", style="yellow", highlight=False, soft_wrap=True)
    if unfinished:
        _print_questions(inferred.questions)
        raise typer.Exit(1)
    for file in texts:
        load_contract(file)
        file.with_name(f"{file.name}.draft").unlink(missing_ok=True)
    out.print(f"\nNext: lakehouse run {next(iter(texts))} {files[0]}", highlight=False, soft_wrap=True)


def _answered(read: Sequence[Sample], name: str, given: Sequence[str], *, ask: bool) -> InferredSource:
    """Infer from the samples, with the answers given as options and those of a person at a terminal.

    :param ask: whether to ask open questions at the terminal.
    :raises typer.BadParameter: if an answer is not among the options.
    """
    from lakehouse.project import inference  # noqa: PLC0415 (`--help` need not wait for it)

    answers: dict[str, str] = {}
    for text in given:
        about, equals, option = text.partition("=")
        if not equals or not option:
            msg = f"{text!r} is no answer; write it as primary_key=order_id"
            raise typer.BadParameter(msg)
        answers[about.strip()] = option.strip()
    inferred = inference.infer(read, answers, name)
    while ask and inferred.questions and sys.stdin.isatty():
        question = inferred.questions[0]
        out.print("\n".join(question.lines), highlight=False, soft_wrap=True)
        answers[question.about] = typer.prompt("Your answer", default=question.default)
        inferred = inference.infer(read, answers, name)
    return inferred


def _print_questions(questions: Sequence[Question]) -> None:
    for question in questions:
        out.print("\n".join(["", *question.lines]), highlight=False, soft_wrap=True)
    again = " ".join(f"--answer '{question.about}={question.default}'" for question in questions)
    how = f"answer with {again}, or take the defaults with --yes" if again else "complete the draft by hand, and name it .yaml"
    out.print(f"\nThe contract is a draft, which no command reads: {how}.", highlight=False, soft_wrap=True)


def run(
    contract: Annotated[Path, typer.Argument(help="The source's contract file, or the name of its dataset.")],
    files: Annotated[list[Path], typer.Argument(help="Files that arrive today.")],
) -> None:
    """Ingest files, update all numbers, and print the changes; many rows and some measures start Spark."""
    from lakehouse.ledger import contract_archive  # noqa: PLC0415 (Dagster and Spark load in seconds)
    from lakehouse.orchestration.execution import in_process, single_run  # noqa: PLC0415
    from lakehouse.project import delivery  # noqa: PLC0415

    try:
        meant = delivery.deployed_source(contract)
    except delivery.UnknownSourceError as problem:
        raise typer.BadParameter(f"{problem}") from None
    print_left_out(meant.left_out)
    if meant.is_of_folder:
        errors.print(f"using the contracts in {contract.parent}; set LAKEHOUSE_CONTRACTS for other commands", style="dim")
    notices = contract_archive.notices_of_source(meant.lake, meant.contract)
    failure = None
    with errors.status("ingesting, and publishing numbers"):
        try:
            done = single_run.run_files(meant.lake, meant.catalog, meant.dataset, files)
        except in_process.RunFailedError as problem:
            if problem.done is None:
                raise
            done, failure = problem.done, problem
    print_run(done, meant.dataset)
    print_notices(notices if done.rows else ())
    try:
        end_of_update(done.failed_checks, done.held, done.left, done.left_out)
    finally:
        if failure is not None:
            raise failure


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
