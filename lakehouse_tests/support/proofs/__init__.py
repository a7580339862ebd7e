"""What ``python -m lakehouse_tests.proofs`` is made of: shards, marked tests, changes since a commit, records and their page."""
