"""Fault profiles: chances per call, and the bounds that keep every task solvable. Frozen data, written whole into each record."""

import json
from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from wardian.sandbox.fingerprint import digest
from wardian.tools.encoding import Json
from wardian.tools.faults.kinds import Fault

Rate: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Ms: TypeAlias = Annotated[int, Field(ge=1, le=3_600_000)]


def digest_of(profile: dict[str, Json]) -> str:
    """Content address of a profile as data."""
    return digest(json.dumps(profile, sort_keys=True).encode("utf-8", "surrogatepass"))


class FaultProfile(BaseModel):
    """Chances per call, and the bounds."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str = Field(min_length=1)
    unavailable: Rate = 0.0
    rate_limited: Rate = 0.0
    timeout_before: Rate = 0.0
    timeout_after: Rate = 0.0
    stale: Rate = 0.0
    empty: Rate = 0.0
    slow: Rate = 0.0
    revoked: Rate = 0.0
    missing: Rate = 0.0
    """Chance, beside the others, at the first call of each tool that needs a revocable scope."""
    partial: Rate = 0.0
    duplicate: Rate = 0.0
    conflict: Rate = 0.0
    lagging: Rate = 0.0
    latency_multiplier: float = Field(default=1.0, gt=0, le=100)
    """Every latency of the episode is multiplied by it."""
    slow_multiplier: float = Field(default=10.0, ge=1, le=1000)
    caller_timeout_ms: Ms | None = None
    """After how long the agent's side gives a call up, where that is before the tool's own `timeout_ms`. `None`: it never does."""
    retry_after_min_ms: Ms = 2_000
    """Shortest virtual time for which a tool that is rate limited takes no calls."""
    retry_after_max_ms: Ms = 30_000
    lag_min_ms: Ms = 1_000
    """Shortest virtual time for which replicas lag behind a write."""
    lag_max_ms: Ms = 60_000
    max_consecutive: int = Field(default=2, ge=1, le=5)
    """Faults in a row per tool; the call after them is never hit."""
    max_total: int = Field(default=12, ge=0)
    """Faults per episode."""
    max_lag_steps: int = Field(default=4, ge=1)
    """A stale read never shows a copy older than that many steps."""

    tools: dict[str, dict[str, Rate]] = Field(default_factory=dict)
    """Chances that differ for one tool: by tool, then by fault."""

    @model_validator(mode="after")
    def _rates_leave_room(self) -> "FaultProfile":
        known = [fault.value for fault in Fault]
        for tool, rates in self.tools.items():
            if unknown := [name for name in rates if name not in known]:
                raise ValueError(f"tools.{tool}: there is no fault {unknown[0]!r}; there are {', '.join(known)}")
        for where, named in [("rates", None), *((f"tools.{name}", name) for name in self.tools)]:
            rates = {fault.value: self.rate(fault, named) for fault in Fault}
            if (total := sum(rates.values())) > 1:
                whose = f"the profile {self.name!r}" if named is None else f"the tool {named!r} in the profile {self.name!r}"
                told = ", ".join(f"{name} {rate:g}" for name, rate in rates.items() if rate)
                raise ValueError(f"{where}: the chances of {whose} are of one draw, so their sum must be at most 1, got {total:g} ({told})")
        return self

    @model_validator(mode="after")
    def _spans_are_spans(self) -> "FaultProfile":
        for name in ("retry_after", "lag"):
            low, high = getattr(self, f"{name}_min_ms"), getattr(self, f"{name}_max_ms")
            if low > high:
                raise ValueError(f"{name}_min_ms: {low} is above {name}_max_ms, {high}")
        return self

    @property
    def hash(self) -> str:
        """Content address of the whole profile."""
        return digest_of(self.model_dump())

    def rate(self, fault: Fault, tool: str | None = None) -> float:
        """The chance of `fault` per call of `tool`; `None` is a tool that the profile does not speak of."""
        own = self.tools.get(tool, {}).get(fault.value) if tool is not None else None
        return float(getattr(self, fault.value)) if own is None else own

    def ever(self, *faults: Fault) -> bool:
        """Whether one of `faults` can be drawn for any tool; of all faults, where none is named."""
        return any(self.rate(fault, tool) > 0 for fault in faults or Fault for tool in (None, *self.tools))

    def draw(self, number: float, tool: str | None = None) -> Fault | None:
        """Which fault the number in [0, 1) stands for; faults have fixed places, in the order of `Fault`."""
        edge = 0.0
        for fault in Fault:
            edge += self.rate(fault, tool)
            if number < edge:
                return fault
        return None


NONE = FaultProfile(name="none")
MILD = FaultProfile(
    name="mild", unavailable=0.01, timeout_before=0.005, timeout_after=0.005, stale=0.01, slow=0.01, partial=0.01, lagging=0.01, max_total=4
)
REALISTIC = FaultProfile(
    name="realistic",
    unavailable=0.03,
    rate_limited=0.01,
    timeout_before=0.02,
    timeout_after=0.02,
    stale=0.04,
    empty=0.01,
    slow=0.02,
    revoked=0.005,
    missing=0.01,
    partial=0.03,
    duplicate=0.01,
    conflict=0.01,
    lagging=0.03,
    latency_multiplier=1.5,
    slow_multiplier=20.0,
    caller_timeout_ms=1500,
)
HARSH = FaultProfile(
    name="harsh",
    unavailable=0.09,
    rate_limited=0.03,
    timeout_before=0.06,
    timeout_after=0.06,
    stale=0.12,
    empty=0.03,
    slow=0.06,
    revoked=0.015,
    missing=0.03,
    partial=0.09,
    duplicate=0.03,
    conflict=0.03,
    lagging=0.09,
    latency_multiplier=3.0,
    slow_multiplier=30.0,
    caller_timeout_ms=3000,
    max_total=30,
)
PROFILES = {profile.name: profile for profile in (NONE, MILD, REALISTIC, HARSH)}
