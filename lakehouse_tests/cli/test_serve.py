"""``lakehouse serve`` and ``lakehouse admin token`` as people type them: a real server, on loopback, that needs no Java."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse_tests.support.forked_cli import lakehouse_command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[str]:
    """The command in a process of its own, without Java on its path."""
    environment = os.environ | {"LAKEHOUSE_ROOT": str(folder / "lake"), "PATH": "/nonexistent", "JAVA_HOME": ""}
    command = [sys.executable, "-m", "lakehouse", "serve", "--port", "0", "--verbose", *options]
    process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    lines = []
    try:
        for line in process.stderr:
            lines.append(line)
            if port := re.search(r"The pages are at http://\S+:(\d+)/", line):
                yield f"http://127.0.0.1:{port[1]}"
                break
        else:
            pytest.fail("".join(lines))
    finally:
        process.terminate()
        process.wait(30)
        process.stderr.close()


def get(url: str, **headers: str) -> tuple[int, Any]:
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as answer:
        return answer.code, json.loads(answer.read())


@pytest.mark.merge
def test_on_loopback_everybody_here_may_read(tmp_path: Path) -> None:
    with serving(tmp_path) as url:
        assert get(f"{url}/health")[1]["status"] == "ok"
        assert [one["name"] for one in get(f"{url}/metrics")[1]["metrics"]] == ["earthquakes_daily", "revenue"]
        assert get(f"{url}/metrics/revenue?window=2024-11-07")[0] == 404
        assert get(f"{url}/health", Host="rebound.example")[1]["type"] == "urn:lakehouse:wrong-host"
        with urllib.request.urlopen(f"{url}/openapi.json", timeout=10) as answer:
            assert "server" not in {name.lower() for name in answer.headers}
            assert json.loads(answer.read())["openapi"].startswith("3.1")


@pytest.mark.merge
def test_elsewhere_reading_needs_a_token(tmp_path: Path) -> None:
    added = lakehouse_command(tmp_path, "token", "add", "ben", "--role", "reader", "--days", "7")
    assert added.returncode == 0, added.stderr
    assert "It is not shown again" in added.stderr
    token = added.stdout.strip()
    with serving(tmp_path, "--host", "0.0.0.0") as url:
        assert get(f"{url}/metrics")[0] == 401
        assert get(f"{url}/metrics", Authorization=f"Bearer {token}")[0] == 200
        (listed,) = lakehouse_command(tmp_path, "token", "list", "--json").stdout.splitlines()
        known = json.loads(listed)
        assert (known["name"], known["role"], "digest" in known) == ("ben", "reader", False)
        revoked = lakehouse_command(tmp_path, "token", "revoke", known["token_id"])
        assert (revoked.returncode, revoked.stdout) == (0, f"{known['token_id']} of ben is revoked.\n")
        until = time.monotonic() + 30
        while get(f"{url}/metrics", Authorization=f"Bearer {token}")[0] == 200 and time.monotonic() < until:
            time.sleep(0.2)
        assert get(f"{url}/metrics", Authorization=f"Bearer {token}")[0] == 401
    assert "revoked" in lakehouse_command(tmp_path, "token", "list").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("token", "add", "ben", "--role", "king"), 2, "--role is one of reader, steward"),
        (("token", "add", " "), 2, "NAME is empty: enter who holds the token"),
        (("token", "revoke", "12345678"), 1, "There is no token 12345678"),
    ],
)
def test_invalid_requests_for_a_token_are_refused(tmp_path: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    done = lakehouse_command(tmp_path, *arguments)
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr
