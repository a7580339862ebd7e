"""A cluster of Spark's standalone mode: a master and workers with a core each, processes of their own on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from tenacity import retry, retry_if_result, stop_after_delay, wait_fixed

from lakehouse_tests.support.free_port import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def spark_cluster(folder: Path, workers: int, memory: str = "1g") -> Iterator[str]:
    """The address of the master, once all workers have registered with it, until the block ends."""
    address = f"spark://127.0.0.1:{(port := free_port())}"
    master_log = folder / "master.log"
    with ExitStack() as stack:
        stack.enter_context(_process(master_log, "master.Master", "--port", f"{port}"))
        for number in range(workers):
            options = ["--cores", "1", "--memory", memory, "--work-dir", f"{folder}/work{number}", address]
            stack.enter_context(_process(folder / f"worker{number}.log", "worker.Worker", *options))
        _registered(master_log, workers)
        yield address


@contextmanager
def _process(log: Path, name: str, *options: str) -> Iterator[None]:
    home = Path(pyspark.__file__).parent
    environment = os.environ | {"SPARK_HOME": f"{home}", "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [f"{home}/bin/spark-class", f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", "--webui-port", "0", *options]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        try:
            yield
        finally:
            process.terminate()
            process.wait()


@retry(stop=stop_after_delay(240), wait=wait_fixed(0.5), retry=retry_if_result(lambda count: not count))
def _registered(log: Path, workers: int) -> bool:
    return log.read_text().count("Registering worker") == workers
