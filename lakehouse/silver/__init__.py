"""Silver: the current row per key and event day, merged or rebuilt from Bronze (R2, R3), and the audit of its changes."""
