"""Reads raw records of Bronze again, under the contract as it is now.

``read_again`` parses and compares and changes nothing in the lake; ``apply`` puts the result into force. ``raw_records`` parses,
``headers`` finds the headers of CSV files, ``changed_claims`` says what a reading changes, ``redacted_keys`` has redactions
follow it. Which row is in force is defined in ``dispositions.readings``.
"""
