"""The pages on trajectories and replay name what there is."""

from pathlib import Path

from wardian.rollouts.play import CANCELLED, POLICY_ERROR, TASK_ERROR
from wardian.rollouts.records import EpisodeEnd, EpisodeStart, RunRecord, StepRecord, Versions
from wardian.rollouts.summary import Tally, summary

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "trajectory.md").read_text()


def named(words: list[str]) -> list[str]:
    """Those that the page does not name."""
    return [word for word in words if f"`{word}`" not in PAGE]


def test_the_page_names_every_field_of_a_step_and_every_kind_of_line() -> None:
    kinds = [kind.model_fields["record"].annotation.__args__[0] for kind in (RunRecord, EpisodeStart, StepRecord, EpisodeEnd)]  # type: ignore[union-attr]
    assert named([*StepRecord.model_fields, *Versions.model_fields, *kinds, POLICY_ERROR, TASK_ERROR, CANCELLED]) == []


def test_the_page_names_every_field_of_the_summary() -> None:
    found = summary(Tally(), None, planned=0, tier=None, wall_s=1.0)
    assert named([*found, *found["resets"]]) == []
