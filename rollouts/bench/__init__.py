"""Measurements of the real engine: resets, commands, tool calls, memory and growth, beside the usual way, in one run."""
