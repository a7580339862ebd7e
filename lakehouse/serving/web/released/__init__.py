"""The pages of training sets and models: what is released, from what it was made, and what became of it."""
