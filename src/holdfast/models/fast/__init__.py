"""Arithmetic: precision, compilation and kernels; reached through the torch models alone."""
