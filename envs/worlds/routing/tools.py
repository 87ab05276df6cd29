"""Tools of model routing. Whether the query is hard, and whether an answer is accepted, is drawn from the episode's own streams.

The task knows neither, so nothing that an agent is given can show it, not even the task's id.
"""

from typing import Literal

from pydantic import Field

from wardian.envs.worlds.routing.model import Move, Parameters
from wardian.envs.worlds.routing.schema import Answer
from wardian.sandbox.streams import stream
from wardian.tools.contract import Arguments, Json, Latency, Tool, ToolContext

PARAMETERS = Parameters()
MOVES = {"cheap": Move.CHEAP, "strong": Move.STRONG}


class AskModel(Arguments):
    model: Literal["cheap", "strong"] = Field(description="Which model answers.")


class Escalate(Arguments):
    """Nothing to say."""


async def ask_model(context: ToolContext, args: AskModel) -> Json:
    move = MOVES[args.model]
    streams = context.world.streams
    hard = stream(streams.seed, "routing/hard").random() < PARAMETERS.hard_share
    accepted = streams["routing/answers"].random() < PARAMETERS.success(move, hard)
    context.db.add(Answer(id=context.new_id("answers"), model=args.model, accepted=accepted))
    context.note(f"{args.model}_call")
    if accepted:
        context.note("accepted", model=args.model)
    return {"model": args.model, "accepted": accepted}


async def escalate(context: ToolContext, args: Escalate) -> Json:
    context.note("escalated")
    return {"handed_over": True}


TOOLS = (
    Tool(
        "ask_model",
        "Send the query to a model and have its answer reviewed. Costs 0.02 for the cheap model, 0.20 for the strong one.",
        AskModel,
        ask_model,
        mutates=True,
        errors=(),
        idempotent=False,
        latency=Latency(200, 900),
    ),
    Tool(
        "escalate", "Hand the query to a person. Ends the work without an answer; costs 0.50.", Escalate, escalate, mutates=True, errors=()
    ),
)
