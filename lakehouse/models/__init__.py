"""Models: trained from training sets, compared, promoted and rolled back, with their lineage and scores.

Everything that uses MLflow belongs here. Building training sets belongs to ``training_sets``.
"""
