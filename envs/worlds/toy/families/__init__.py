"""Families of the lending desk, one module each."""
