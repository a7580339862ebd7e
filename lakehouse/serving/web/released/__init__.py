"""The pages of training sets and models: released versions, their origin, and their history."""
