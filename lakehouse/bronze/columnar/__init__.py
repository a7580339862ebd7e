"""Reads whole columns at once where that is certain to give what the record-by-record reader gives.

``csv_blocks``, ``json_blocks`` and ``parquet_blocks`` split a part of a file into columns of text; ``conversion``, ``clocks``,
``keys`` and ``rows`` turn them into rows of Bronze; ``merge`` puts the rows of the exact reader between them.
"""
