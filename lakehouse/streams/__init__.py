"""Brings continuously sent data of a source into Bronze, in micro-batches: messages of a Kafka topic, or files of landing.

``reading_plan`` names ranges of offsets and decides which are read next and what is missing, ``client`` talks to the brokers,
``message_rows`` makes rows of Bronze, ``ingest`` commits them; ``status`` has the progress and records missing messages,
``service`` repeats these steps. Everything after Bronze is the same as for files.
"""
