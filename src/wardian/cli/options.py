"""Options that several commands have, and what their words mean."""

from typing import Annotated

import typer

from wardian.envs.settings import MalformedPolicy
from wardian.rollouts.errors import UsageProblem
from wardian.sandbox.cell import Tier

World = Annotated[str, typer.Argument(help="Name of a world, or package.module:function of one of your own.")]
WorldOrTemplate = Annotated[str | None, typer.Argument(help="Name of a world, or package.module:function of one of your own.")]
Faults = Annotated[str, typer.Option(help="Fault profile: none, mild, realistic, harsh, or a TOML file.")]
Malformed = Annotated[str, typer.Option(help="What an invalid call costs: recover, penalise or terminate.")]
TierName = Annotated[str, typer.Option(help="Restore tier: chamber, fresh, or auto for the best that works here.")]
Image = Annotated[str | None, typer.Option(help="What cells run: an image of `wardian image adopt`. Default: the agent image.")]
Progress = Annotated[bool, typer.Option(help="Show progress on stderr, where that is a terminal.")]


def tier_of(name: str) -> Tier | None:
    """The tier of that name; `None` for `auto`.

    Raises:
        UsageProblem: there is none.
    """
    known = [one.value for one in Tier]
    if name not in (*known, "auto"):
        raise UsageProblem(f"tier: no {name!r}; there are {', '.join(known)} and auto")
    return None if name == "auto" else Tier(name)


def malformed_named(name: str) -> MalformedPolicy:
    """The policy of that name.

    Raises:
        UsageProblem: there is none.
    """
    known = [one.value for one in MalformedPolicy]
    if name not in known:
        raise UsageProblem(f"malformed: no {name!r}; there are {', '.join(known)}")
    return MalformedPolicy(name)
