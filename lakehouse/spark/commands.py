"""``lakehouse admin spark``: a Spark Connect server on this machine that keeps running between commands."""

from __future__ import annotations

from typing import Annotated

import typer

from lakehouse.cli.console import errors, out

app = typer.Typer(help="Keep Spark running: a Spark Connect server on this machine.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Keep Spark running: a Spark Connect server on this machine."""


@app.command()
def start(
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port on 127.0.0.1.")] = 15002,
    memory: Annotated[str | None, typer.Option(help="The heap size, such as 4g; default: LAKEHOUSE_SPARK_MEMORY.")] = None,
    wait: Annotated[float, typer.Option(min=1, help="Seconds to wait until it answers.")] = 120,
) -> None:
    """Start the server, wait until it answers, and print the setting with which commands and Dagster use it."""
    from lakehouse.lake import Lake  # noqa: PLC0415
    from lakehouse.spark import connect  # noqa: PLC0415
    from lakehouse.spark.session import local_options  # noqa: PLC0415

    connect.check_installed()
    lake = Lake.open(spark_long_lived=True, spark_memory=memory) if memory else Lake.open(spark_long_lived=True)
    found, new = connect.start(connect.state_folder(), local_options(lake), port, wait)
    if not new:
        errors.print(f"It runs already, since {found.started_at}; other options take effect after 'lakehouse admin spark stop'.")
    out.print(f"export LAKEHOUSE_SPARK_REMOTE={found.address}", soft_wrap=True)


@app.command()
def status() -> None:
    """Report whether the server answers; the exit code is 1 if it does not."""
    from lakehouse.spark import connect  # noqa: PLC0415

    server = connect.recorded_server(connect.state_folder())
    if server is None:
        out.print("No server was started here: 'lakehouse admin spark start' starts one.")
        raise typer.Exit(1)
    if not server.is_running():
        out.print(f"The server started at {server.started_at} is gone; its log is {server.log}.", soft_wrap=True)
        raise typer.Exit(1)
    connect.check_installed()
    about = f"process {server.pid}, since {server.started_at}, log {server.log}"
    spark = connect.version(server.address)
    if spark is None:
        out.print(f"{server.address} does not answer ({about}); 'lakehouse admin spark stop' ends it.", soft_wrap=True)
        raise typer.Exit(1)
    out.print(f"{server.address} answers: Spark {spark} ({about}).", soft_wrap=True)


@app.command()
def stop() -> None:
    """Stop the server, and wait until it has ended."""
    from lakehouse.spark import connect  # noqa: PLC0415

    ended = connect.stop(connect.state_folder())
    out.print(f"{ended.address} has ended." if ended else "No server that was started here is running.")
