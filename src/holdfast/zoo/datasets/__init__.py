"""Datasets: what can be read and certified."""
