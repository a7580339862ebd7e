"""The silver rows that a number is computed from: those of several sources as one table, now and as earlier inputs gave them."""
