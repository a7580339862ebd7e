"""Numbers made of the published ones and of what changed since, without reading the rows that nothing concerns."""
