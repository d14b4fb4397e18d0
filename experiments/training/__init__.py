"""Objectives of training compared: what each is worth in certified confidence."""
