"""From landing files to Bronze: finding files, reading them exactly, and appending every record once (R1).

Plain Python: ``file_formats``, ``row_parser``, ``type_conversion``, ``manifests``, ``file_stability``.
"""
