"""Faults as part of the world: frozen profiles, seeded draws, and bounds that keep every task solvable.

A drawn fault lands only where the tool's contract allows it and the bounds do: at most `max_consecutive` in a row per tool and
`max_total` per episode. A retry therefore works in the end. The one fault that does not go away by itself is a scope that is revoked,
and only scopes that the task's family declared revocable are: there asking for approval, or escalating, is the right solution.
"""

from wardian.tools.faults.drawing import DRAWS, Drawn, draw, lag, lagging, landed, revoked, shut, shut_ms
from wardian.tools.faults.files import SUFFIX, load_profile
from wardian.tools.faults.kinds import Fault
from wardian.tools.faults.plan import DueFault, FaultPlan, possible
from wardian.tools.faults.profile import HARSH, MILD, NONE, PROFILES, REALISTIC, FaultProfile, digest_of
from wardian.tools.faults.telling import Told, told

__all__ = [
    "DRAWS",
    "HARSH",
    "MILD",
    "NONE",
    "PROFILES",
    "REALISTIC",
    "SUFFIX",
    "Drawn",
    "DueFault",
    "Fault",
    "FaultPlan",
    "FaultProfile",
    "Told",
    "digest_of",
    "draw",
    "lag",
    "lagging",
    "landed",
    "load_profile",
    "possible",
    "revoked",
    "shut",
    "shut_ms",
    "told",
]
