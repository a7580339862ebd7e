"""``python -m lakehouse``, the same as ``lakehouse``."""

from lakehouse.cli import main

main()
