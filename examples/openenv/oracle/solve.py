"""Play the reference solution of a task on a server, and print the reward: `python oracle/solve.py URL TASK`."""

import sys

import wardian
from wardian.envs.action import Action, Message, Observation, ToolCalls
from wardian.envs.registry import load_world
from wardian.trainers.client import BlockingSession, Turn


def solve(url: str, task_id: str) -> float | None:
    """The return of the reference; `None` when the server failed."""
    family = load_world("toy").family(task_id.split("/")[0])
    with wardian.connect(url) as client, client.session() as session:
        turn = session.reset(task_id=task_id)
        solution = family.reference(seen(turn))
        action = next(solution)
        while not (turn := taken(session, action)).done:
            action = solution.send(seen(turn))
        return turn.total_reward


def seen(turn: Turn) -> Observation:
    """A turn, as a solution reads it."""
    return Observation(turn.text, turn.tokens, turn.results, turn.incoming)


def taken(session: BlockingSession, action: Action) -> Turn:
    """Take it."""
    if isinstance(action, Message):
        return session.say(action.text)
    assert isinstance(action, ToolCalls)
    return session.step({"type": "tool_calls", "calls": [{"tool": one.tool, "arguments": one.args} for one in action.calls]})


if __name__ == "__main__":
    print(solve(*sys.argv[1:3]))
