"""Measuring a policy on a fixed set of tasks that nothing is ever learned from."""
