"""Reports: what a run comes to, as text, JSON and figures."""
