"""Brings what a source sends continuously into Bronze, in micro-batches: the messages of a Kafka topic, or the files of landing.

``message_ranges`` names ranges of offsets, ``reading_plan`` decides which are read next and what is missing, ``client`` talks to
the brokers, ``message_rows`` makes rows of Bronze, ``ingest`` commits them; ``gap_log`` keeps what is missing, ``service``
runs it all again and again. Everything behind Bronze is as for files, and shared with them.
"""
