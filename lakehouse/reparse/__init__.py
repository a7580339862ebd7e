"""Reads raw records of Bronze again, under the present contract.

``read_again`` parses and compares and changes nothing in the lake; ``apply`` puts the result into force. ``raw_records`` parses,
``headers`` looks up the headers of CSV files, ``changed_claims`` computes the changes of a reading, ``redacted_keys`` extends
redactions to it. Which row is in force is defined in ``dispositions.readings``.
"""
