"""Pages and HTTP for people and dashboards; reads through delta-rs, no JVM."""
