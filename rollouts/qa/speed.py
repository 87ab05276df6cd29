"""How fast the reference mix was played. Numbers of this machine, which nobody but the user can hold a bound against."""

from wardian.rollouts.bench.samples import quantile
from wardian.rollouts.qa.lab import Lab
from wardian.rollouts.qa.outcome import Outcome


async def measured(lab: Lab) -> Outcome:
    """Resets and episodes of the log, with as many at once as were asked for."""
    asked, tally = lab.asked, lab.tally
    episodes, starts = len(lab.own), tally.starts_ms
    found = Outcome(measured=asked.max_reset_ms is None and asked.min_episodes_per_s is None)
    p95, rate = quantile(starts, 0.95), round(episodes / lab.played_s, 3) if lab.played_s else None
    found.figures = {
        "at_once": asked.cells,
        "episodes": episodes,
        "episodes_per_s": rate,
        "steps_per_s": round(tally.steps / lab.played_s, 3) if lab.played_s else None,
        "reset_p50_ms": quantile(starts, 0.5),
        "reset_p95_ms": p95,
        "wall_s": round(lab.played_s, 3),
    }
    found.evidence.append(f"{episodes} episodes, {asked.cells} at once; a reset counts the wait for a free cell")
    if asked.max_reset_ms is not None and (p95 is None or p95 > asked.max_reset_ms):
        found.findings.append(f"resets take {p95} ms (95th percentile), and at most {asked.max_reset_ms:g} were asked for")
    if asked.min_episodes_per_s is not None and (rate is None or rate < asked.min_episodes_per_s):
        found.findings.append(f"{rate} episodes a second, and at least {asked.min_episodes_per_s:g} were asked for")
    return found
