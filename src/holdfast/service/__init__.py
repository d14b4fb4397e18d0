"""The service: one process that is both a page and an HTTP API; needs the extra ``serve``."""
