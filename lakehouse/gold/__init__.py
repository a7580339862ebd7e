"""Gold: the published numbers of metrics. ``numbers`` reads them; the others publish, restate, promote and reproduce them."""
