"""Certificates: what users hold, and the counts they are computed from."""
