"""Quality assurance of a world: what has to hold before anybody trains on it.

A world is played once by scripted policies, and the log is kept as evidence. Each check looks at that log, or plays something more, and
gives an `Outcome`: what it looked at, what is wrong, and figures. `wardian.rollouts.qa.examining` runs them all.
"""
