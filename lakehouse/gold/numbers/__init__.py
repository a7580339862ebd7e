"""Published numbers: their table, lifecycle, versions and history, and the comparison of two versions.

``lifecycle``, ``comparison``, ``version_selector`` and ``rollup_inputs`` are plain Python. Publishing belongs to ``publication``.
"""
