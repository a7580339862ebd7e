"""Tests of lakehouse; the folders are those of the product.

Nothing else belongs here but what has to be said before the first test module is imported.
"""

import os
import sys

# Where the environment forbids bytecode, each worker rewrites all test modules again, and each command of a test compiles the
# product again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
