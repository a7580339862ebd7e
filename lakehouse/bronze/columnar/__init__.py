"""Reads whole columns at once where that is certain to give what the record-by-record reader gives.

``file_parts`` cuts a large file for several tasks; ``csv_blocks``, ``json_blocks`` and ``parquet_blocks`` split blocks of it into
columns of text; ``conversion``, ``keys`` and ``rows`` turn these into rows of Bronze; ``merge`` puts the rows of the
exact reader between them.
"""
