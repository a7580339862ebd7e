"""The command line. ``program`` groups the commands by task; ``console`` and ``arguments`` are shared by all commands.

A command belongs in the module ``commands`` of its capability. It parses, calls and prints; what it prints is computed elsewhere.
``models_demo`` is the demo of models, ``number_report`` the report of a number that several commands print.
"""


def main() -> None:
    """Run the command line."""
    from lakehouse.cli import program  # noqa: PLC0415 (the commands import this package)

    program.main()
