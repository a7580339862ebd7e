"""Reads whole columns at once where the result is certain to equal that of the record-by-record reader.

``file_parts`` cuts a large file for several tasks; ``csv_blocks``, ``json_blocks`` and ``parquet_blocks`` split its blocks into
columns of text; ``conversion``, ``keys`` and ``rows`` turn these into rows of Bronze; ``merge`` adds the rows of the exact reader
in file order.
"""
