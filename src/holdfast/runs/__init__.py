"""Runs: certificates on disk."""
