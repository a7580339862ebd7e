"""Brings continuously sent data of a source into Bronze, in micro-batches: the messages of a Kafka topic, or the files of
landing.

``message_ranges`` names ranges of offsets, ``reading_plan`` decides which are read next and what is missing, ``client`` talks to
the brokers, ``message_rows`` makes rows of Bronze, ``ingest`` commits them; ``gap_log`` records missing messages, ``service``
repeats these steps. Everything after Bronze is the same as for files.
"""
