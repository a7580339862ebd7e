"""Models: trained from training sets, compared, promoted and taken back; what they have learned from, and what they have scored.

What knows of MLflow belongs here. How a training set is built belongs to ``training_sets``.
"""
