"""What is released and who uses it: labels, training sets, models, promotions, and the impact of a correction on all of them."""
