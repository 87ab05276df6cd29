"""What a server costs: `wardian bench serve`. Timed numbers, never a test's.

echo     a world that does nothing but answer, for the protocol's own cost
rival    the same behind OpenEnv's own server
serving  the measurements
"""
