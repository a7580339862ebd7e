"""The charts of the pages, drawn by ``reports.svg``: published numbers, lateness, and a source's watermark.

A table next to each chart contains the same numbers.
"""
