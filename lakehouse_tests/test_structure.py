"""The shape of the source tree: tests mirror the product, folders and modules stay small, and each class name is defined once."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).parent
PRODUCT = TESTS.parent / "lakehouse"
#: Folders of tests that mirror no folder of the product: helpers, tests of a whole deployment, and tests of the tests.
OF_THEIR_OWN = ("support", "acceptance", "mutation")
MODULES = sorted(PRODUCT.rglob("*.py"))
#: Modules in which neither stands are not parsed, which takes seconds for all of them.
_NAMES_A_TEST = re.compile(r"import.*\btest_|from .*\btest_")
_CLASS = re.compile(r"^ *class (\w+)", re.MULTILINE)
MODULES_PER_FOLDER = 25
LINES_PER_MODULE = 500


def packages(root: Path) -> set[str]:
    """The folders below ``root`` that hold modules, relative to it."""
    return {path.parent.relative_to(root).as_posix() for path in root.rglob("*.py")} - {"."}


def imported_modules(path: Path) -> Iterator[str]:
    """Absolute names of what a module imports, at any depth of its code; of ``from a import b`` both ``a`` and ``a.b``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_each_folder_of_the_product_has_a_folder_of_tests_and_the_other_way_round() -> None:
    mirrored = {folder for folder in packages(TESTS) if folder.split("/")[0] not in OF_THEIR_OWN}
    assert mirrored == packages(PRODUCT)


def test_no_test_imports_a_test_module() -> None:
    test_modules = {".".join(path.relative_to(TESTS.parent).with_suffix("").parts) for path in TESTS.rglob("test_*.py")}
    imports = [
        f"{path.relative_to(TESTS.parent)} imports {module}"
        for path in TESTS.rglob("*.py")
        if _NAMES_A_TEST.search(path.read_text(encoding="utf-8"))
        for module in imported_modules(path)
        if module in test_modules
    ]
    assert imports == [], "move what they share to lakehouse_tests/support"


def test_a_folder_of_the_product_holds_25_modules_at_most() -> None:
    modules = Counter(path.parent.relative_to(PRODUCT).as_posix() for path in PRODUCT.rglob("*.py") if path.name != "__init__.py")
    assert {folder: count for folder, count in modules.items() if count > MODULES_PER_FOLDER} == {}


def test_a_module_of_the_product_has_500_lines_at_most() -> None:
    lines = {path.relative_to(PRODUCT).as_posix(): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {name: count for name, count in lines.items() if count > LINES_PER_MODULE} == {}


def test_a_class_name_stands_once_in_the_product() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for name in _CLASS.findall(path.read_text(encoding="utf-8")):
            places[name].append(path.relative_to(PRODUCT).as_posix())
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}
