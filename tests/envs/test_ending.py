"""Whose doing is it."""

import pytest

from wardian.envs.ending import EndCause, EndKind, boundary
from wardian.envs.errors import StateMismatch, VerifierBroken
from wardian.sandbox.errors import CellDied, CellTimeout, DeathCause, EngineUnavailable, LeakDetected, PoolTimeout
from wardian.tools.errors import ToolBroken

FAILED = EndKind.FAILED


@pytest.mark.parametrize(
    ("error", "kind", "cause"),
    [
        (CellDied("c", DeathCause.POLICY, "fork bomb"), EndKind.TERMINATED, EndCause.CELL_DIED),
        (CellDied("c", DeathCause.INFRASTRUCTURE, "gone"), FAILED, EndCause.INFRASTRUCTURE),
        (CellTimeout("c", "restore", 1.0), FAILED, EndCause.INFRASTRUCTURE),
        (EngineUnavailable("create", "no disk"), FAILED, EndCause.INFRASTRUCTURE),
        (LeakDetected("world", ("x",)), FAILED, EndCause.INFRASTRUCTURE),
        (PoolTimeout("busy"), FAILED, EndCause.INFRASTRUCTURE),
        (VerifierBroken("f", "raised"), FAILED, EndCause.VERIFIER),
        (StateMismatch("t"), FAILED, EndCause.STATE_MISMATCH),
        (ToolBroken("t", {}, "raised"), FAILED, EndCause.ENVIRONMENT),
        (ZeroDivisionError(), FAILED, EndCause.ENVIRONMENT),
    ],
)
def test_every_escape_has_an_owner(error: Exception, kind: EndKind, cause: EndCause) -> None:
    ending = boundary(error)
    assert (ending.kind, ending.cause) == (kind, cause)
    assert type(error).__name__ in ending.detail
