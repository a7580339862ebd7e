"""Changes in a source's contract: how a record marks one, their order, envelopes, and their intervals of validity."""
