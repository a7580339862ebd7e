"""From landing files to Bronze: detecting files, reading them exactly, and appending every record once (R1).

``reader`` reads a file by columns (``csv_columns``, ``json_columns``, ``parquet``), and record by record (``file_formats``,
``row_parser``, ``type_conversion``) where only that is certain to be exact; the latter modules define the correct result. Plain
Python: ``file_formats``, ``row_parser``, ``type_conversion``, ``file_completeness``.
"""
