"""The package that is shipped as an example declares what the server does, and OpenEnv's own checks agree."""

import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openenv.core.generic_client import GenericEnvClient
from openenv.validation import run_validation
from openenv.validation.graders import Subject
from openenv.validation.graders.runtime import ObservationSchemaGrader, RewardWellFormedGrader, StateContractGrader
from openenv.validation.manifest import ExecutionDeclaration, NormalizedManifest
from openenv.validation.parsers.openenv_yaml import OpenEnvYamlParser
from openenv.validation.runtime.collector import collect_runtime_evidence
from openenv.validation.runtime.contracts import load_runtime_plan
from openenv.validation.types import CheckStatus, Level

from ..serving import served
from .conftest import Ask

TASK = "lending-desk/easy/seed-2"


@pytest.fixture(scope="module")
def toy() -> Iterator[str]:
    with served("toy", "--cells", "1", "--drain-s", "1") as url:
        yield url


@pytest.fixture
def manifest(package: Path) -> NormalizedManifest:
    return OpenEnvYamlParser().parse(package)


def test_the_package_passes_the_static_level(package: Path) -> None:
    report = run_validation(package, max_level=Level.STATIC)
    assert (report.verdict.value, [(one.check_id, one.status.value) for one in report.results]) == ("pass", [("static.manifest", "pass")])


@pytest.mark.filterwarnings("ignore::DeprecationWarning:openenv")  # it uses what websockets no longer wants used
def test_the_running_server_passes_the_runtime_checks(toy: str, package: Path, manifest: NormalizedManifest) -> None:
    plan = load_runtime_plan(package, ExecutionDeclaration())
    evidence = collect_runtime_evidence(toy, plan, episode_timeout_s=60)
    assert (evidence.failure_reason, len(evidence.exchanges)) == (None, 2 + 2 * len(plan.actions))
    subject = Subject(package, manifest, None, None, package / "outputs", evidence)
    results = [grader().run(subject) for grader in (RewardWellFormedGrader, ObservationSchemaGrader, StateContractGrader)]
    assert [(one.status, one.evidence) for one in results] == [(CheckStatus.PASS, ["observed runtime contract holds"])] * 3


def test_tools_and_tasks_are_those_that_are_declared(toy: str, manifest: NormalizedManifest, ask: Ask) -> None:
    tools = ask(f"{toy}/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})[1]["result"]["tools"]
    assert sorted(tool["name"] for tool in tools) == manifest.capabilities.declared_tools
    splits = [one["name"] for one in ask(f"{toy}/toy/splits")[1]]
    counts = {split: ask(f"{toy}/toy/num_tasks", {"split": split})[1]["num_tasks"] for split in splits}
    assert counts == manifest.capabilities.declared_task_count


def test_the_oracle_earns_the_most_and_the_canaries_the_least(toy: str, package: Path, manifest: NormalizedManifest) -> None:
    most = manifest.reward.range[1]
    assert manifest.capabilities.oracle is not None
    assert manifest.capabilities.canaries is not None
    oracle = runpy.run_path(str(package / manifest.capabilities.oracle.location))["solve"](toy, TASK)
    canaries = {file.stem: played(toy, json.loads(file.read_text())) for file in (package / manifest.capabilities.canaries).iterdir()}
    assert oracle >= most - manifest.reward.oracle_tolerance
    assert sorted(canaries) == ["claim_only", "report_only"]
    assert max(canaries.values()) <= most - manifest.reward.floor_margin


def played(url: str, canary: dict[str, Any]) -> float:
    with GenericEnvClient(base_url=url).sync() as env:
        env.reset(task_id=TASK)
        return sum((float(env.step(action).reward) for action in canary["actions"]), 0.0)
