"""Late events in the API: counts and rates by metric and source, and the late rows of a metric."""
