"""Reads raw records of Bronze again, under the present contract.

``read_again`` parses and compares and changes nothing in the lake; ``apply`` puts the result into force. ``changed_claims``
computes the changes of a reading, and extends redactions to it. Which row is in force is defined in ``dispositions.readings``.
"""
