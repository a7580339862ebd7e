"""Write the tables of sizes and walks in ``docs/architecture.md``.

Sizes are how many modules, folders, lines and long signatures the product has. ``docs/walks.py`` says what a walk is.

python docs/write_structure.py            # measures, and writes the file
python docs/write_structure.py --check    # exits with 1 where a measure is above its table, and names it
"""

from __future__ import annotations

import ast
import gc
import re
import sys
from math import ceil
from pathlib import Path

from walks import WALKS, Code, folder_changes

PAGE = Path(__file__).with_name("architecture.md")
BEGIN = "<!-- Measured by docs/write_structure.py; a test compares. -->\n"
END = "<!-- End of the measured tables. -->\n"
#: From so many arguments on, a signature is long.
_MANY = 8
#: The bound of lines is a full thousand: features add lines, and a bound that each commit moves holds nothing.
_STEP = 1000
#: A row of either table: what is measured, and its bound in the last column.
_ROW = re.compile(r"^\| ([^|]+) \|(?: `[^|]+` \|)? ([\d,]+) \|$", re.MULTILINE)


def sizes(code: Code) -> dict[str, int]:
    """Each measure with its value."""
    modules = code.modules.values()
    nodes = [(module, node) for module in modules for node in ast.walk(module.tree)]
    functions = [node for _, node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    arguments = [[arg.arg for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)] for node in functions]
    imports = {
        (module.name, f"{node.module}.{alias.name}")
        for module, node in nodes
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lakehouse")
        for alias in node.names
    }
    return {
        "modules": len(modules),
        "folders": len({module.path.parent for module in modules}),
        "lines": ceil(sum(len(module.path.read_text(encoding="utf-8").splitlines()) for module in modules) / _STEP) * _STEP,
        f"functions with {_MANY} or more arguments": sum(len(names) >= _MANY for names in arguments),
        "functions that take `settings`": sum("settings" in names for names in arguments),
        "imported names of other modules": len(imports),
    }


def tables(measured: dict[str, int], walked: dict[str, int]) -> str:
    """The sizes and the walks as tables."""
    rows = [f"| {name} | {value:,} |" for name, value in measured.items()]
    walks = [f"| {name} | `{WALKS[name]}` | {value:,} |" for name, value in walked.items()]
    head = ["", "| Walk | Begins at | Changes of folder, at most |", "| --- | --- | ---: |"]
    return "\n".join(["| Measure | At most |", "| --- | ---: |", *rows, *head, *walks, ""])


if __name__ == "__main__":
    gc.disable()  # nothing of the parsed source is garbage, and looking for it doubles the time
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    written, _, after = rest.partition(END)
    code = Code()
    measured, walked = sizes(code), folder_changes(code)
    if "--check" in sys.argv:
        bounds = {name: int(value.replace(",", "")) for name, value in _ROW.findall(written)}
        above = [f"{name}: {value:,}" for name, value in (measured | walked).items() if value > bounds.get(name, 0)]
        sys.exit(f"above the tables in docs/architecture.md: {', '.join(above)}" if above else 0)
    PAGE.write_text(f"{before}{BEGIN}{tables(measured, walked)}{END}{after}", encoding="utf-8")
