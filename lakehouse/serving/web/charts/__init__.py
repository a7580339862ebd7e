"""The charts of the pages, drawn by ``reports.svg``: of published numbers, of lateness, and of a source's watermark.

A table next to each chart contains the same numbers.
"""
