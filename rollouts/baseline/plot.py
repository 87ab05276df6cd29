"""The picture of the sweep: where the choice after a cheap rejection flips."""

import importlib.util
from pathlib import Path

from wardian.envs.worlds.routing.model import Move
from wardian.rollouts.baseline.routing import Baselines

FILE = "routing.png"
NO_PLOT = "since matplotlib is not installed; it comes with `pip install 'wardian[plot]'`"


def can_plot() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def plot(found: Baselines, out: Path) -> Path:
    """Draw the sweep into the folder `out`, which is made; gives the file. Needs matplotlib: see `can_plot`."""
    import matplotlib.figure

    figure = matplotlib.figure.Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    costs = [at.cost for at in found.sweep]
    axes.plot(costs, [at.cheap for at in found.sweep], color="#3b7a57", label="cheap again, exact")
    axes.plot(costs, [at.strong for at in found.sweep], color="#a23b3b", label="strong, exact")
    for move, marker, height in ((Move.CHEAP, "o", "#3b7a57"), (Move.STRONG, "s", "#a23b3b")):
        points = [(at.cost, at.cheap if move is Move.CHEAP else at.strong) for at in found.sweep for one in at.learned if one is move]
        if points:
            label = f"learned: {move.name.lower()}"
            axes.scatter(*zip(*points, strict=True), marker=marker, facecolors="none", edgecolors=height, label=label)
    if found.flips_at is not None:
        axes.axvline(found.flips_at, color="grey", linestyle=":", label=f"flips at {found.flips_at:.4f}")
    axes.set_xlabel("cost of the cheap model")
    axes.set_ylabel("value after one cheap rejection")
    axes.set_title("Model routing: what to do after the cheap model was rejected")
    axes.legend()
    out.mkdir(parents=True, exist_ok=True)
    path = out / FILE
    figure.savefig(path, dpi=110)
    return path
