"""Pictures of the report, as SVG that stands in the page. Text is drawn as shapes, so that it needs no font and escapes nothing."""

import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from wardian.rollouts.qa.courses import grouped, share
from wardian.rollouts.qa.lab import Lab
from wardian.rollouts.qa.outcome import Report
from wardian.rollouts.redteam.mutants import ENOUGH

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GREEN, BLUE = "#3b7a57", "#5b7fa6"


def plots(report: Report, lab: Lab) -> Iterator[tuple[str, str]]:
    """Captions and pictures. Needs matplotlib."""
    yield "Share of solved episodes, by policy and family", _drawn(lambda axes: _success(axes, lab))
    yield "Returns by family, each dot an episode", _drawn(lambda axes: _returns(axes, lab))
    yield "Steps of the expert by family and difficulty", _drawn(lambda axes: _steps(axes, lab))
    yield "What ended the audited episodes", _drawn(lambda axes: _causes(axes, lab))
    if any(score for score in _scores(report).values()):
        yield "Share of mutants of solved states that the verifiers fail", _drawn(lambda axes: _mutants(axes, report))
    yield "Resets of the reference mix, wait for a cell included", _drawn(lambda axes: _resets(axes, lab))


def _drawn(draw: Callable[["Axes"], None]) -> str:
    import matplotlib
    import matplotlib.figure

    with matplotlib.rc_context({"svg.hashsalt": "wardian", "svg.fonttype": "path"}):
        figure = matplotlib.figure.Figure(figsize=(9, 3.6), layout="constrained")
        draw(figure.subplots())
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = file.getvalue()
    return text[text.index("<svg") :]


def _label(text: str) -> str:
    """A name that matplotlib does not read as mathematics."""
    return text.replace("$", r"\$")


def _success(axes: "Axes", lab: Lab) -> None:
    policies, families = grouped(lab.own, lambda one: one.policy), [family.name for family in lab.families]
    width = 0.8 / max(1, len(policies))
    for number, (name, courses) in enumerate(policies.items()):
        rates = [share([one for one in courses if one.family == family]) or 0.0 for family in families]
        axes.bar([at + number * width for at in range(len(families))], rates, width, label=_label(name))
    axes.set_xticks([at + 0.4 - width / 2 for at in range(len(families))], [_label(name) for name in families])
    axes.set_ylim(0, 1.05)
    axes.set_ylabel("solved")
    axes.legend(fontsize="small", ncols=3)


def _returns(axes: "Axes", lab: Lab) -> None:
    for number, courses in enumerate(grouped((one for one in lab.audited if one.judged), lambda one: one.family).values()):
        spread = [number + (index % 21 - 10) / 40 for index in range(len(courses))]
        axes.scatter(spread, [one.reward for one in courses], s=14, alpha=0.6, color=BLUE)
    names = list(grouped((one for one in lab.audited if one.judged), lambda one: one.family))
    axes.set_xticks(range(len(names)), [_label(name) for name in names])
    axes.set_ylabel("return")


def _steps(axes: "Axes", lab: Lab) -> None:
    kinds = grouped((one for one in lab.own if one.policy == "expert"), lambda one: f"{one.family}/{one.difficulty}")
    axes.boxplot([[one.steps for one in courses] for courses in kinds.values()], orientation="horizontal")
    axes.set_yticks(range(1, len(kinds) + 1), [_label(name) for name in kinds])
    axes.set_xlabel("steps")


def _causes(axes: "Axes", lab: Lab) -> None:
    causes = grouped(lab.audited, lambda one: f"{one.outcome}: {one.end_cause}")
    bars = axes.barh([_label(name) for name in causes], [len(courses) for courses in causes.values()], color=GREEN)
    axes.bar_label(bars, padding=3)
    axes.set_xlabel("episodes")


def _resets(axes: "Axes", lab: Lab) -> None:
    axes.hist(lab.tally.starts_ms, bins=30, color=GREEN)
    axes.set_xlabel("ms")
    axes.set_ylabel("resets")


def _scores(report: Report) -> dict[str, float]:
    figures = next((one.outcome.figures for one in report.results if one.name == "verifiers"), {})
    return {family: row["score"] for family, row in figures.items()}


def _mutants(axes: "Axes", report: Report) -> None:
    scores = _scores(report)
    bars = axes.barh([_label(name) for name in scores], list(scores.values()), color=GREEN)
    axes.bar_label(bars, fmt="%.3f", padding=3)
    axes.axvline(ENOUGH, color="grey", linestyle=":", label=f"{ENOUGH} is asked for")
    axes.set_xlim(0, 1.1)
    axes.legend(fontsize="small", loc="lower left")
