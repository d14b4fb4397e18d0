"""Experiments: what Holdfast measures, drawn from stored runs."""
