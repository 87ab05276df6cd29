"""Database tools through the environment's `step`, each step fingerprinted, recorded and written to a trajectory."""

import time
from dataclasses import dataclass, field
from pathlib import Path

from wardian.envs.action import Action, call
from wardian.envs.settings import MalformedPolicy, Settings
from wardian.rollouts.bench.samples import Numbers, Samples
from wardian.rollouts.errors import RolloutError
from wardian.rollouts.ground import Ground
from wardian.rollouts.recording import AttemptRecorder, Setting, versions_of
from wardian.rollouts.trajectory import FILE, TrajectoryWriter
from wardian.tools.contract import Status
from wardian.tools.faults import PROFILES

TASK = "billing-dispute/easy/seed-{}"


@dataclass(slots=True)
class CallBench:
    ground: Ground
    """Of the world `billing`."""
    directory: Path
    by_tool: dict[str, Samples] = field(default_factory=dict)
    start: Samples = field(default_factory=Samples)
    """`ToolEnvironment.reset` on a cell that is ready: clone, proof, the task's rows and files."""
    episodes: int = 0

    async def run(self, count: int) -> None:
        """One episode with `count` calls of each tool, in turns.

        Raises:
            RolloutError: a call did not end as it must.
        """
        world = self.ground.world
        settings = Settings()
        faults = PROFILES["none"]
        setting = Setting(world, "billing", versions_of(self.ground), faults, "recover", settings.recompute_every)
        async with self.ground.environment(faults, MalformedPolicy.RECOVER, settings) as env:
            with TrajectoryWriter(self.directory / FILE) as writer:
                task_id = TASK.format(self.episodes)
                recorder = AttemptRecorder(setting, f"bench-{self.episodes}", task_id, 0, "bench", "bench", 1)
                self.episodes += 1
                first = await env.reset(task_id)
                info = env.reset_info
                self.start.add(info.total_ms)
                writer.write(recorder.start(first, info))
                for number in range(count):
                    for name, action in actions(info.task.parameters, number).items():
                        began = time.perf_counter()
                        step = await env.step(action)
                        writer.write(recorder.step(action, step, (time.perf_counter() - began) * 1e3))
                        self.by_tool.setdefault(name, Samples()).add((time.perf_counter() - began) * 1e3)
                        if step.done or [event.status for event in step.info.events] != [Status.OK]:
                            raise RolloutError(f"bench: {name} did not end as it must: {step.failed or step.observation.rendered}")

    def numbers(self) -> Numbers:
        """All tools together, and each."""
        together = Samples([value for samples in self.by_tool.values() for value in samples.values])
        return {
            **together.numbers(),
            "by_tool": {name: samples.numbers() for name, samples in self.by_tool.items()},
            "episode_start": self.start.numbers(),
        }


def actions(parameters: "dict[str, object] | object", number: int) -> dict[str, Action]:
    """Two calls that look and one that writes, on the ticket of a task."""
    assert isinstance(parameters, dict)
    return {
        "get_invoice": call("get_invoice", invoice_id=parameters["invoice_id"]),
        "list_invoices": call("list_invoices", customer_id=parameters["customer_id"]),
        "reply_to_ticket": call("reply_to_ticket", ticket_id=parameters["ticket_id"], body=f"We are looking into it ({number})."),
    }
