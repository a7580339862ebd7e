"""Numbers computed from the published ones and the changes since, without reading the unaffected rows."""
