"""A medallion lakehouse that keeps history honest: late, corrected, moved and re-sent data, restated exactly."""
