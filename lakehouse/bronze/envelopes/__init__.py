"""Extracts the changes of rows from change feeds: plain Python, one module per envelope.

``change`` defines the result, ``unfolding`` chooses the module, ``source_order`` encodes the order of the changes. The columns of
the row are typed in ``bronze.row_parser``, like those of any record.
"""
