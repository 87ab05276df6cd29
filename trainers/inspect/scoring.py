"""The score of a sample: what its world has come to, by the world's own verifier."""

from inspect_ai.model import ChatMessageAssistant
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from wardian.envs.action import Step
from wardian.trainers.inspect.grounds import playing
from wardian.trainers.inspect.playing import EpisodeFailed, Playing

METRICS = {"success": [mean(), stderr()], "reward": [mean(), stderr()], "hard_failure": [mean()]}


@scorer(metrics=METRICS, name="world_state")
def world_state() -> Scorer:
    """`success` and `hard_failure` as 0 or 1, and `reward`; how the episode ended stands beside them.

    An episode that Inspect's limits left unfinished hears the model's last message, where it did not yet, and is then cut off and judged
    as it stands. One that failed through us raises: the sample is an error and counts in no metric.
    """

    async def score(state: TaskState, target: Target) -> Score:
        episode = playing(state.uuid)
        if episode is None or episode.failure:
            raise EpisodeFailed(episode.failure if episode else "the sample has no episode")
        step = await episode.finish(_unheard(state))
        return _score(episode, step)

    return score


def _unheard(state: TaskState) -> str:
    """The model's last message, where nothing answered it."""
    last = state.messages[-1] if state.messages else None
    return last.text if isinstance(last, ChatMessageAssistant) and not last.tool_calls else ""


def _score(episode: Playing, step: Step) -> Score:
    verdict = step.info.verdict
    checks = {check.name: check.passed for check in verdict.checks} if verdict else {}
    details = [f"{check.name}: {check.detail}" for check in verdict.checks if check.detail] if verdict else []
    return Score(
        value={
            "success": float(verdict is not None and verdict.succeeded),
            "reward": round(episode.reward, 6),
            "hard_failure": float(verdict is not None and verdict.hard_failure),
        },
        explanation="; ".join(details) or f"ended by {step.info.end_cause}",
        metadata={
            "end_cause": str(step.info.end_cause),
            "terminated": step.terminated,
            "truncated": step.truncated,
            "checks": checks,
            "reward_components": {name: round(value, 6) for name, value in episode.components.items()},
            "calls_by_status": dict(episode.statuses),
            "steps": episode.steps,
        },
    )
