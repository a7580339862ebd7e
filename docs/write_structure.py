"""Write the table of sizes in ``docs/architecture.md``: how many modules, folders, lines and long signatures the product has.

python docs/write_structure.py            # measures, and writes the file
python docs/write_structure.py --check    # exits with 1 where a measure is above the table, and names it
"""

from __future__ import annotations

import ast
import re
import sys
from math import ceil
from pathlib import Path

PAGE = Path(__file__).with_name("architecture.md")
PRODUCT = PAGE.parents[1] / "lakehouse"
BEGIN = "<!-- Measured by docs/write_structure.py; a test compares. -->\n"
END = "<!-- End of the measured table. -->\n"
#: From so many arguments on, a signature is long.
_MANY = 8
#: The bound of lines is a full thousand: features add lines, and a bound that each commit moves holds nothing.
_STEP = 1000
_ROW = re.compile(r"^\| ([^|]+) \| ([\d,]+) \|$", re.MULTILINE)


def sizes() -> dict[str, int]:
    """Each measure with its value."""
    paths = sorted(PRODUCT.rglob("*.py"))
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    functions = [
        node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    arguments = [[arg.arg for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)] for node in functions]
    imports = {
        (path, f"{node.module}.{alias.name}")
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lakehouse")
        for alias in node.names
    }
    return {
        "modules": len(paths),
        "folders": len({path.parent for path in paths}),
        "lines": ceil(sum(len(text.splitlines()) for text in texts.values()) / _STEP) * _STEP,
        f"functions with {_MANY} or more arguments": sum(len(names) >= _MANY for names in arguments),
        "functions that take `settings`": sum("settings" in names for names in arguments),
        "imported names of other modules": len(imports),
    }


def table(values: dict[str, int]) -> str:
    """The values as a table."""
    return "\n".join(
        ["| Measure | At most |", "| --- | ---: |", *(f"| {name} | {value:,} |" for name, value in values.items()), ""]
    )


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    written, _, after = rest.partition(END)
    measured = sizes()
    if "--check" in sys.argv:
        bounds = {name: int(value.replace(",", "")) for name, value in _ROW.findall(written)}
        above = [f"{name}: {value:,}" for name, value in measured.items() if value > bounds.get(name, 0)]
        sys.exit(f"above the table in docs/architecture.md: {', '.join(above)}" if above else 0)
    PAGE.write_text(f"{before}{BEGIN}{table(measured)}{END}{after}", encoding="utf-8")
