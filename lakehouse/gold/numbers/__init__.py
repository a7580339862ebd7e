"""Published numbers: their table, lifecycle, versions and history, and the comparison of two versions.

``lifecycle``, ``comparison``, and ``version_selector`` are plain Python. Publishing belongs to ``publication``.
"""
