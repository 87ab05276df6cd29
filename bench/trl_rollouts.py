"""How long a step of GRPO takes with slow tools, by TRL's own loop and by the concurrent one: `python bench/trl_rollouts.py [--out DIR]`.

Run it from the repository's top with the python of `.build/trainers/trl`; `WARDIAN_BIN` names the `wardian` that serves. Batches of 16
episodes of the world `faulty`, of which 15 call a tool that sleeps 0.5 s; the words of the model are given, its loss is real. Prints the
table of docs/trainers/trl.md, and writes trl_rollouts.json.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}

import torch
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from tests.trainers.serving import FAULTY, served
from tests.trainers.trl import tiny
from tests.trainers.trl.plans import called, speaking
from wardian.trainers.trl import WardianSpec

BATCH, STEPS = 16, 4
QUICK = (called("echo", text="WORD"), "Done.")
SLOW = (called("slow", seconds=0.5), "Done.")


class Clock(TrainerCallback):
    """Seconds of each step, optimizer included."""

    def __init__(self) -> None:
        self.steps: list[float] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._began = time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.steps.append(time.perf_counter() - self._began)


def measured(spec: WardianSpec, slow: int, folder: str, **way: Any) -> float:
    """Median seconds of a step in which `slow` of 16 episodes call the slow tool; the first step is left out."""
    words, clock = tiny.tokenizer(), Clock()
    trainer = GRPOTrainer(
        model=tiny.speaker(words, speaking(*[SLOW] * slow, *[QUICK] * (BATCH - slow))),
        reward_funcs=spec.reward_funcs,
        args=GRPOConfig(
            output_dir=folder,
            max_steps=STEPS + 1,
            num_generations=BATCH,
            per_device_train_batch_size=BATCH,
            max_completion_length=900,
            report_to="none",
            use_cpu=True,
            bf16=False,
            save_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=spec.train_dataset,
        processing_class=words,
        callbacks=[clock],
        **way,
    )
    trainer.train()
    return statistics.median(clock.steps[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    out = parser.parse_args().out
    torch.set_num_threads(1)
    found = {}
    with served(FAULTY, "--sessions", str(BATCH)) as url, tempfile.TemporaryDirectory() as folder:
        spec = WardianSpec(url, difficulties=["easy"])
        for slow in (0, 15):
            found[f"{slow} slow"] = {
                "environment_factory": measured(spec, slow, folder, environment_factory=spec.environment_factory),
                "rollout_func": measured(spec, slow, folder, rollout_func=spec.rollout_func),
            }
        spec.close()
    print("| calls of 0.5 s in a batch of 16 | `environment_factory` | `rollout_func` |\n| --- | --- | --- |")
    for name, seconds in found.items():
        print(f"| {name.split()[0]} | {seconds['environment_factory']:.2f} s | {seconds['rollout_func']:.2f} s |")
    (out / "trl_rollouts.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
