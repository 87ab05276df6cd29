"""Policies that are models: behind an endpoint, or in this process."""
