"""Training with noise."""
