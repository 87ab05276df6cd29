"""GRPO from nothing: a tiny model learns the lending desk through a server: `python examples/learn_grpo.py --out runs/learn [--seed 0]`.

1. Lessons: the reference solution is played through the server on training tasks, with random calls mixed in.
2. Warm start: a tokenizer and a model of 120,000 weights are trained on them, so that its calls parse and it succeeds now and then.
3. GRPO: TRL's trainer with `WardianSpec.rollout_func`, eight episodes of each task; a checkpoint every so many steps.
4. Choice: `wardian eval` measures every checkpoint on held-out tasks; the best is measured again on others, beside the warm start and the
   fixed policies.

`python examples/learn_grpo.py --plot runs/learn-0 runs/learn-1 ... --out FOLDER` draws `learning.png` of several runs, and writes
`learning.json`. It needs the extra `plot`.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
WORLD, FAMILY, DIFFICULTY = "toy", "lending-desk", "easy"
LESSONS, CHANCE = 500, 0.3
"""Episodes to learn from at first, and how often a call in them is a random one."""
LISTED = 6000
"""Tasks that the server lists; a sixth of them are of this family and difficulty."""
CHOOSING, LAST_WORD = 0, 1
"""Seeds of two sets of held-out tasks: one to choose a checkpoint by, one to measure the chosen one."""
GROUP = 8


def main() -> None:
    """Learn, or draw what was learned."""
    options = _options()
    if options.plot:
        draw([Path(folder) for folder in options.plot], options.out)
        return
    started = time.monotonic()
    options.out.mkdir(parents=True)
    found: dict[str, Any] = {"seed": options.seed, "steps": options.steps}
    with served(options.out, cells=GROUP * options.groups) as url:
        found |= learn(url, options)
    found["training_s"] = round(time.monotonic() - started, 1)
    found |= judged(options)
    found |= {"all_s": round(time.monotonic() - started, 1), "cpu_s": _cpu_s()}
    (options.out / "learning.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps({name: value for name, value in found.items() if name != "curve"}, indent=1))


def _cpu_s() -> float:
    """Seconds of processors that this process used, with its server and its evaluations."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return round(sum(one.ru_utime + one.ru_stime for one in used), 1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder that this makes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=200, help="of GRPO")
    parser.add_argument("--warm", type=int, default=1000, help="supervised steps before it")
    parser.add_argument("--lessons", type=int, default=LESSONS, help="episodes to learn from at first")
    parser.add_argument("--groups", type=int, default=3, help="tasks of one step, eight episodes each")
    parser.add_argument("--every", type=int, default=40, help="steps between two checkpoints")
    parser.add_argument("--tasks", type=int, default=40, help="held-out tasks of an evaluation")
    parser.add_argument("--plot", nargs="+", metavar="RUN", help="draw these runs")
    return parser.parse_args()


@contextmanager
def served(out: Path, cells: int) -> Iterator[str]:
    """A server of the training split, which ends after the block; gives its address."""
    command = [wardian(), "serve", WORLD, "--cells", str(cells), "--sessions", str(2 * cells), "--tasks", str(LISTED), "--port", "0"]
    with (out / "server.log").open("w") as log:
        server = subprocess.Popen([*command, "--out", str(out / "trajectories")], stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            if not line.startswith("serving "):
                raise SystemExit(f"no server; {log.name} says why")
            yield line.split()[1]
        finally:
            server.terminate()
            server.wait()


def wardian() -> str:
    """The command of this environment."""
    return str(Path(sys.executable).parent / "wardian")


def learn(url: str, options: argparse.Namespace) -> dict[str, Any]:
    """Lessons, warm start and GRPO; gives what the trainer logged."""
    import learned_clerk as clerk
    import torch
    from trl import GRPOConfig, GRPOTrainer

    from wardian.trainers.trl import WardianSpec

    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    spec = WardianSpec(
        url,
        families=[FAMILY],
        difficulties=[DIFFICULTY],
        opening=clerk.opening,
        show_tools=False,
        turn_tokens=clerk.TURN_TOKENS,
    )
    lessons = clerk.recorded(spec.connection.client(), spec.tasks[: options.lessons], CHANCE, options.seed)
    words = clerk.tokenizer_of(lessons)
    model = clerk.model_of(words)
    loss = clerk.taught(model, words, lessons, options.warm, options.seed)
    print(f"warm start: {len(lessons)} lessons, {sum(one.numel() for one in model.parameters())} weights, loss {loss:.3f}", flush=True)
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=spec.reward_funcs,
        rollout_func=spec.rollout_func,
        train_dataset=spec.train_dataset,
        processing_class=words,
        args=GRPOConfig(
            output_dir=str(options.out / "trainer"),
            seed=options.seed,
            max_steps=options.steps,
            num_generations=GROUP,
            per_device_train_batch_size=GROUP * options.groups,
            max_completion_length=clerk.EPISODE_TOKENS,
            learning_rate=5e-4,
            lr_scheduler_type="constant_with_warmup",
            warmup_steps=5,
            max_grad_norm=0.5,
            beta=0.0,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            bf16=False,
            disable_tqdm=True,
        ),
        callbacks=[_keeping(options, words)],
    )
    trainer.train()
    spec.close()
    return {"loss": loss, "curve": _curve(trainer.state.log_history)}


def _keeping(options: argparse.Namespace, words: Any) -> Any:
    """Keeps the weights of the warm start and of every few steps."""
    from transformers import TrainerCallback

    class Keeping(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            self._keep(model, 0)

        def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            if state.global_step % options.every == 0 or state.global_step == options.steps:
                self._keep(model, state.global_step)

        def _keep(self, model: Any, step: int) -> None:
            folder = options.out / "checkpoints" / f"step_{step:04d}"
            model.save_pretrained(folder)
            words.save_pretrained(folder)

    return Keeping()


def _curve(history: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    names = {"step": "step", "reward": "reward", "wardian/success": "success", "entropy": "entropy"}
    return [{short: line[name] for name, short in names.items() if name in line} for line in history if "reward" in line]


def judged(options: argparse.Namespace) -> dict[str, Any]:
    """Evaluate every checkpoint, and measure the one to keep on other held-out tasks, beside the warm start and the fixed policies."""
    steps = sorted(folder.name for folder in (options.out / "checkpoints").iterdir())
    choosing = evaluated(options, CHOOSING, steps)
    kept = str(choosing["checkpoints"]["keep"]["policy"])
    both = list(dict.fromkeys((steps[0], kept)))
    return {
        "choosing": _numbers(choosing),
        "kept": kept,
        "last_word": _numbers(evaluated(options, LAST_WORD, ["random", "expert", *both])),
        "likeliest_tokens": _numbers(evaluated(options, LAST_WORD, both, temperature=0.0)),
    }


def evaluated(options: argparse.Namespace, seed: int, policies: Sequence[str], temperature: float = 1.0) -> dict[str, Any]:
    """`wardian eval` of checkpoints and fixed policies on held-out tasks without faults; `seed` draws the tasks."""
    named = ",".join(f"learned_clerk:{policy}" if policy.startswith("step_") else policy for policy in policies)
    command = [wardian(), "eval", WORLD, "--policy", named, "--split", "heldout", "--family", FAMILY, "--difficulty", DIFFICULTY]
    sizes = ["--tasks", str(options.tasks), "--repeats", "1", "--faults", "none", "--seed", str(seed), "--cells", "16"]
    out = options.out / "evals" / f"seed-{seed}-temperature-{temperature:g}"
    variables = {"PYTHONPATH": str(HERE), "CLERKS": str(options.out / "checkpoints"), "CLERKS_TEMPERATURE": str(temperature)}
    done = subprocess.run(
        [*command, *sizes, "--out", str(out), "--json", "--no-progress"],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: ended with {done.returncode}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _numbers(found: Mapping[str, Any]) -> dict[str, Any]:
    """Success with its interval, and the mean reward, by policy."""
    return {
        one["policy"]: {**one["profiles"]["none"]["success"], "mean_reward": one["profiles"]["none"]["mean_reward"]}
        for one in found["evaluations"]
    }


def draw(runs: Sequence[Path], out: Path) -> None:
    """`learning.png` and `learning.json` of several runs, in the folder `out`."""
    import matplotlib.figure

    found = [json.loads((run / "learning.json").read_text()) for run in runs]
    figure = matplotlib.figure.Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for number, one in enumerate(found):
        colour = f"C{number}"
        steps, success = [line["step"] for line in one["curve"]], [line.get("success", 0.0) for line in one["curve"]]
        left.plot(steps, _smooth(success), color=colour, label=f"seed {one['seed']}")
        places = [int(name.removeprefix("step_")) for name in one["choosing"]]
        values = list(one["choosing"].values())
        spread = [[value["mean"] - value["low"] for value in values], [value["high"] - value["mean"] for value in values]]
        right.errorbar(places, [value["mean"] for value in values], yerr=spread, color=colour, marker="o", capsize=2, alpha=0.8)
        right.plot([int(one["kept"].removeprefix("step_"))], [one["choosing"][one["kept"]]["mean"]], "*", color=colour, markersize=15)
    left.set(title="Training tasks (mean of 10 steps)", xlabel="step", ylabel="success", ylim=(-0.02, 1.02))
    right.set(title="Held-out tasks, by `wardian eval`; star: kept", xlabel="step")
    left.legend(frameon=False)
    figure.savefig(out / "learning.png", dpi=120)
    (out / "learning.json").write_text(json.dumps(found) + "\n")


def _smooth(values: Sequence[float], width: int = 10) -> list[float]:
    return [sum(values[max(0, place - width + 1) : place + 1]) / min(place + 1, width) for place in range(len(values))]


if __name__ == "__main__":
    main()
