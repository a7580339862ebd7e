"""Takes the changes of rows out of change feeds: plain Python, one module per envelope.

``change`` is what each of them gives, ``unfolding`` chooses the module, ``source_order`` encodes the order of the changes. The
columns of the row are typed in ``bronze.row_parser``, as those of any record.
"""
