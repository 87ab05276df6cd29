"""TRL on a CPU, against a server in a process of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

import wardian
from tests.trainers.serving import FAULTY, served
from tests.trainers.trl import tiny
from wardian.trainers.client import BlockingClient

torch.set_num_threads(1)


def pytest_configure(config: pytest.Config) -> None:
    """What the trainer's own libraries are warned of is not ours."""
    for line in (
        "ignore::FutureWarning",
        "ignore::DeprecationWarning",
        "ignore::UserWarning",
        "ignore::pytest.PytestUnraisableExceptionWarning",
    ):
        config.addinivalue_line("filterwarnings", line)


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server writes its trajectories."""
    return tmp_path_factory.mktemp("server") / "logs"


@pytest.fixture(scope="session")
def url(logs: Path) -> Iterator[str]:
    with served(FAULTY, "--sessions", "16", "--step-s", "3", "--out", str(logs)) as found:
        yield found


@pytest.fixture(scope="session")
def client(url: str) -> Iterator[BlockingClient]:
    with wardian.connect(url) as found:
        yield found


@pytest.fixture(scope="session")
def words() -> PreTrainedTokenizerFast:
    return tiny.tokenizer()


@pytest.fixture
def trained(words: PreTrainedTokenizerFast, tmp_path: Path) -> Callable[..., GRPOTrainer]:
    """Makes a trainer of a spec: `trained(spec, speak, rollout_func=spec.rollout_func)`."""

    def make(spec: Any, speak: tiny.Speak, **options: Any) -> GRPOTrainer:
        settings = {"max_steps": 2, "num_generations": 4, "per_device_train_batch_size": 4, "max_completion_length": 3000}
        chosen = {name: options.pop(name) for name in list(options) if name in (*settings, "beta")}
        arguments = GRPOConfig(
            output_dir=str(tmp_path),
            report_to="none",
            use_cpu=True,
            bf16=False,
            save_strategy="no",
            logging_steps=1,
            learning_rate=1e-3,
            disable_tqdm=True,
            **{**settings, **chosen},
        )
        return GRPOTrainer(
            model=tiny.speaker(words, speak),
            reward_funcs=spec.reward_funcs,
            args=arguments,
            train_dataset=spec.train_dataset,
            processing_class=words,
            **options,
        )

    return make
