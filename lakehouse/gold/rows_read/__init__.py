"""The silver rows that a number is computed from: the rows of several sources as one table, now and for earlier inputs."""
