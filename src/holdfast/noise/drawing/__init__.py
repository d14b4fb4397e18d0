"""Drawing noise with torch: in blocks from NumPy's generators, or by counter on a GPU."""
