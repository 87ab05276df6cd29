"""Returns: that families pay on one scale, that success pays best, and that long episodes pay on the way."""

from statistics import mean, median

from wardian.rollouts.qa.courses import Course, grouped
from wardian.rollouts.qa.lab import Lab
from wardian.rollouts.qa.outcome import Outcome
from wardian.rollouts.records import Json

MOST_RATIO = 10.0
"""Between the widest and the narrowest range of returns of two families."""
LONG = 40
"""Steps of an episode over which a reward at the end alone spreads too thin."""


async def comparable(lab: Lab) -> Outcome:
    """Ranges of returns by family, of all scripted policies and of what is audited."""
    found = Outcome()
    every = [*lab.own, *(lab.audited if lab.audited is not lab.own else ())]
    by_family = grouped((one for one in every if one.judged), lambda one: one.family)
    found.figures = {name: _returns(group) for name, group in by_family.items()}
    ranges = {name: row["highest"] - row["lowest"] for name, row in found.figures.items()}
    found.evidence.append(f"returns of {sum(map(len, by_family.values()))} episodes of {len(by_family)} families")
    found.findings += [f"{name}: every episode pays {found.figures[name]['median']}" for name, width in ranges.items() if width == 0]
    paying = {name: width for name, width in ranges.items() if width > 0}
    if paying and max(paying.values()) > MOST_RATIO * min(paying.values()):
        wide, narrow = max(paying, key=paying.__getitem__), min(paying, key=paying.__getitem__)
        found.findings.append(
            f"{wide} pays over a range of {paying[wide]:.3g}, {narrow} over {paying[narrow]:.3g}: the wide one drowns the other "
            f"(more than {MOST_RATIO:g} times); see RewardSpec"
        )
    for name, group in by_family.items():
        best, least = _mean(group, "expert"), _mean(group, "idle")
        if best is not None and least is not None and best <= least:
            found.findings.append(f"{name}: the expert earns {best:.3g} on average, idleness {least:.3g}; doing nothing pays as well")
    return found


async def on_the_way(lab: Lab) -> Outcome:
    """In families whose tasks take long, something beside constant costs is paid before the end."""
    found = Outcome()
    by_family = grouped((one for one in lab.own if one.policy == "expert" and one.judged), lambda one: one.family)
    for name, group in by_family.items():
        steps, paid = median(one.steps for one in group), sum(one.signals > 0 for one in group)
        found.figures[name] = {"median_steps": steps, "episodes": len(group), "paid_before_the_end": paid}
        if steps > LONG and not paid:
            found.findings.append(
                f"{name}: the expert takes {steps:g} steps and is paid at the end alone; pay for effects on the way (RewardSpec.effects)"
            )
    found.evidence.append(f"{sum(map(len, by_family.values()))} episodes of the expert; more than {LONG} steps are long")
    return found


def _returns(courses: list[Course]) -> dict[str, Json]:
    values = [one.reward for one in courses]
    return {"lowest": round(min(values), 4), "median": round(median(values), 4), "highest": round(max(values), 4), "episodes": len(values)}


def _mean(courses: list[Course], policy: str) -> float | None:
    values = [one.reward for one in courses if one.policy == policy]
    return mean(values) if values else None
