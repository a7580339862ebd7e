"""Well-formed files damaged in many ways, each with what must become of every line of it.

``pieces`` has the well-formed file, the other modules damage it, ``expected`` compares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse_tests.support.malformed_files import accidents, csv_lines, json_lines, values, whole_files

if TYPE_CHECKING:
    from lakehouse_tests.support.malformed_files.pieces import Malformation


def malformations() -> list[Malformation]:
    """All malformations; of those that come to the same bytes the first."""
    distinct: dict[tuple[str, bytes], Malformation] = {}
    for module in (csv_lines, json_lines, values, whole_files, accidents):
        for malformation in module.malformations():
            distinct.setdefault((malformation.format, malformation.content), malformation)
    return list(distinct.values())
