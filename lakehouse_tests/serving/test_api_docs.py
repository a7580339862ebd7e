"""The example of docs/api.md, run against a server as it is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lakehouse.contracts import load_catalog
from lakehouse.serving.app import create
from lakehouse.settings import Settings
from lakehouse_tests.support.api_server import running_server

DOCS = Path(__file__).parents[2] / "docs" / "api.md"
#: What stands in the document, and what this lake has in its place.
HERE = {"revenue?": "total?", '["revenue"]': '["total"]', "2024-11-07T10": "2024-01-01T10", "2024-11-07": "2024-01-01"}


@pytest.mark.merge
def test_asking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = re.search(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert found is not None
    text = found[1]
    with running_server(tmp_path) as (url, _):
        for there, here in {"http://127.0.0.1:8321": url, **HERE}.items():
            assert there in text
            text = text.replace(there, here)
        exec(text, {})
    assert capsys.readouterr().out.splitlines() == ["5 Final r3", "1 Live (updating)", "304"]


@pytest.mark.merge
def test_every_path_is_documented() -> None:
    paths = create(Settings(root="nowhere"), load_catalog(None)).openapi()["paths"]
    told = DOCS.read_text().replace("{window}", "{window_name}").replace("{id}", "{row_id}")
    for path in paths:
        assert f" {path}`" in told or f" {path}?" in told, path
