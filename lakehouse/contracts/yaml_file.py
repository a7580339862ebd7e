"""A YAML file of contracts: its content, and the location of mistakes. The meaning of the keys is in the models."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pydantic_core import ErrorDetails


#: The suffix that pydantic adds to the location of a mapping key that is a mistake.
_OF_KEY = "[key]"
_FIELD = re.compile(r"([a-z_]+(?:\.[a-z_]+)*): ")


class ContractError(LakehouseError):
    """A contract that cannot be used. The text lists every mistake as ``file:line: field: what to do``."""

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = list(mistakes)
        super().__init__("\n".join(self.mistakes))


def parsed(path: Path) -> tuple[Any, yaml.Node | None]:
    """Parse a YAML file into its content and its node tree, which has the line numbers.

    :raises ContractError: if the file is not valid YAML or a mapping repeats a key.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ContractError([f"{path}: cannot be read: {error.strerror}"]) from None
    try:
        text = data.decode()
        tree = yaml.compose(text, Loader=ContractYaml)
        content = yaml.load(text, Loader=ContractYaml)  # noqa: S506 (a SafeLoader)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ContractError([f"{path}:{line}: not valid UTF-8; save the file as UTF-8"]) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ContractError([f"{path}:{line}: not valid YAML: {error.problem or error.context}"]) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ContractError([f"{path}:{line}: not valid YAML: {error.reason}"]) from None
    except (RecursionError, ValueError, yaml.YAMLError) as error:
        raise ContractError([f"{path}:1: not valid YAML: {error}"]) from None
    repeated = _repeated_keys(tree)
    if repeated:
        raise ContractError(f"{path}:{key.start_mark.line + 1}: {key.value}: is given twice; keep one" for key in repeated)
    return content, tree


class ContractYaml(yaml.SafeLoader):
    """The YAML dialect of contracts. Dates stay text: the models parse them and name the field of an impossible date.

    ``on`` and ``off`` stay text, too: ``on`` is a key of joins, and the models parse both as booleans where needed.
    """


ContractYaml.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if not (tag.endswith(":timestamp") or (tag.endswith(":bool") and first in {"o", "O"}))
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _repeated_keys(tree: yaml.Node | None) -> list[yaml.ScalarNode]:
    repeated: list[yaml.ScalarNode] = []
    pending = [tree]
    seen: set[int] = set()  # an alias refers to a visited node, possibly in a cycle
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            pending += node.value
        elif isinstance(node, yaml.MappingNode):
            pending += [value for _, value in node.value]
            keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            first = {key.value: key for key in reversed(keys)}
            repeated += [key for key in keys if key is not first[key.value]]
    return sorted(repeated, key=lambda key: key.start_mark.line)


def line_of(tree: yaml.Node | None, location: tuple[int | str, ...]) -> int:
    """The line (from 1) of the deepest node on the path ``location`` that exists in the file."""
    node, line = tree, 1
    for step in location:
        if isinstance(node, yaml.MappingNode):
            pair = next(((key, value) for key, value in node.value if key.value == str(step)), None)
            if pair is None:
                break
            line, node = pair[0].start_mark.line + 1, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.start_mark.line + 1
        else:
            break
    return line


def in_file(tree: yaml.Node | None, location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Remove from a location the words that pydantic adds for the forms of a section, such as its ``strategy``.

    These words are values in the file or are in parentheses; they are not keys.
    """
    node, steps = tree, list[int | str]()
    location = tuple(step for step in location if step != _OF_KEY)
    for place, step in enumerate(location):
        values = {key.value: value for key, value in node.value} if isinstance(node, yaml.MappingNode) else {}
        is_value = any(isinstance(value, yaml.ScalarNode) and value.value == step for value in values.values())
        is_form = isinstance(step, str) and step.startswith("(")
        if is_form or (is_value and step not in values and place < len(location) - 1):
            continue
        steps.append(step)
        if isinstance(node, yaml.SequenceNode):
            node = node.value[step] if isinstance(step, int) and step < len(node.value) else None
        else:
            node = values.get(step)
    return tuple(steps)


def as_prefix(location: tuple[int | str, ...]) -> str:
    """A location as a prefix of a message."""
    return ".".join(str(step) for step in location) + ": " if location else ""


def located(problem: ErrorDetails, known_keys: str) -> tuple[tuple[int | str, ...], str]:
    """The location of a mistake and its message. Validators of several fields name the field at the start of the message."""
    message = _plain(problem["msg"], known_keys)
    field_name = _FIELD.match(message)
    if field_name:
        return (*problem["loc"], *field_name[1].split(".")), message[field_name.end() :]
    return problem["loc"], message


def _plain(message: str, known_keys: str) -> str:
    """Reword a pydantic message for the author of a YAML file."""
    return (
        message.removeprefix("Value error, ")
        .replace("Extra inputs are not permitted", f"unknown key; {known_keys} lists the known ones")
        .replace("Field required", "is missing")
    )
