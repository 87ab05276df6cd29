"""One picture of a run: latencies beside the usual way, resets per second, and growth."""

from pathlib import Path
from typing import TYPE_CHECKING

from wardian.rollouts.bench.samples import Numbers
from wardian.rollouts.errors import UsageProblem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FILE = "bench.png"


def plot(numbers: Numbers, out: Path) -> Path:
    """Draw `numbers` into `out`; gives the file.

    Raises:
        UsageProblem: matplotlib is not installed.
    """
    try:
        import matplotlib.figure
    except ImportError:
        raise UsageProblem("no plot: matplotlib is not installed; it comes with `pip install 'wardian[plot]'`") from None
    figure = matplotlib.figure.Figure(figsize=(12, 7.5), layout="constrained")
    axes = figure.subplots(2, 2)
    _latencies(axes[0, 0], numbers)
    _rates(axes[0, 1], numbers)
    _parts(axes[1, 0], numbers)
    _growth(axes[1, 1], numbers)
    machine = numbers["machine"]
    figure.suptitle(
        f"Wardian on {machine['cores']} cores, kernel {machine['kernel']}, engine {machine['engine']}, {numbers['leaks']} leaks"
    )
    path = out / FILE
    figure.savefig(path, dpi=110)
    return path


def _latencies(axes: "Axes", numbers: Numbers) -> None:
    rows = {
        "container per episode": numbers["container"],
        "reset after a vandal": numbers["reset"]["vandal"],
        "reset, ordinary": numbers["reset"]["ordinary"],
        "docker exec true": numbers["docker_exec"],
        "true in a chamber": numbers["exec"],
        "database tool, logged": numbers["tool_call"],
    }
    bars = axes.barh(list(rows)[::-1], [row["p50_ms"] for row in rows.values()][::-1], color="#3b7a57")
    axes.bar_label(bars, fmt="%.1f", padding=3)
    axes.set_xscale("log")
    axes.margins(x=0.15)
    axes.set_xlabel("p50, ms")
    axes.set_title("Latency")


def _rates(axes: "Axes", numbers: Numbers) -> None:
    at_once = numbers["resets_at_once"]
    rows = {f"{cells} cell{'s' * (cells != '1')}": row["per_s"] for cells, row in at_once.items()} | {
        "containers": numbers["container"]["at_once"]["per_s"]
    }
    bars = axes.bar(list(rows), list(rows.values()), color=["#3b7a57"] * len(at_once) + ["#999999"])
    axes.bar_label(bars, fmt="%.0f", padding=2)
    axes.margins(y=0.12)
    axes.set_ylabel("per second")
    axes.set_title("Verified resets, half of them after a vandal")


def _parts(axes: "Axes", numbers: Numbers) -> None:
    left = {"ordinary": 0.0, "vandal": 0.0}
    for part in numbers["reset"]["ordinary"]["parts_p50_ms"]:
        widths = [numbers["reset"][kind]["parts_p50_ms"][part] for kind in left]
        axes.barh(list(left), widths, left=list(left.values()), label=part)
        left = {kind: left[kind] + width for kind, width in zip(left, widths, strict=True)}
    axes.legend(fontsize="small", ncols=3, loc="upper right")
    axes.set_ylim(-0.5, 2.2)
    axes.set_xlabel("medians of the parts, ms")
    axes.set_title("Where a reset's time goes")


def _growth(axes: "Axes", numbers: Numbers) -> None:
    names, values = [], []
    for what, rows in numbers["growth"].items():
        for name, row in rows.items():
            names.append(name if what in ("world", "episodes") else f"{name} {what}" if name != "1" else "1 cell")
            values.append(row["p50_ms"])
    bars = axes.barh(names[::-1], values[::-1], color="#5b7fa6")
    axes.bar_label(bars, fmt="%.1f", padding=3)
    axes.margins(x=0.15)
    axes.set_xlabel("reset p50, ms")
    axes.set_title("Growth")
