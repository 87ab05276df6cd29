"""The benchmark itself: that it measures everything and that nothing leaks. Never how fast."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from wardian.cli import build_app
from wardian.rollouts.bench import postgres
from wardian.rollouts.bench.samples import quantile
from wardian.rollouts.bench.targets import TARGETS

SECTIONS = {
    *("machine", "rounds", "wall_s", "quick", "leaks", "verified_resets", "cells_replaced", "reset", "resets_at_once", "container"),
    *("exec", "docker_exec", "tool_call", "growth", "memory", "ratios", "targets"),
}


def test_a_quick_bench_measures_everything_and_nothing_leaks(wardian: Any, tmp_path: Path) -> None:
    ran = wardian("bench", "--quick", "--json", "--out", tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert set(found) >= SECTIONS
    assert found["leaks"] == 0
    assert found["verified_resets"] > 0
    assert [row["what"] for row in found["targets"]] == [target.what for target in TARGETS]
    assert set(found["growth"]) == {"world", "files", "cells", "episodes"}
    assert found["reset"]["vandal"]["n"] == found["reset"]["ordinary"]["n"] > 0
    assert json.loads((tmp_path / "bench.json").read_text()) == found
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.anyio
async def test_a_bench_of_postgres_measures_every_part_and_nothing_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "CELLS", 2)
    found = await postgres.measure_postgres(postgres.PostgresScale(rounds=1, sizes_mb=(1,), sustained_s=0))
    assert found["leaks"] == 0
    assert [row["what"] for row in found["targets"]] == [target.what for target in postgres.TARGETS]
    assert all(row["found"] is not None for row in found["targets"])
    assert (len(found["reset"]), len(found["clone"])) == (3, 2)
    assert len(found["usual"]) == 6
    assert found["sustained"]["n"] >= 1
    assert found["sustained"]["server_cpu_ms_per_reset"] > 0


def test_a_server_is_not_measured_on_another_engine() -> None:
    ran = CliRunner().invoke(build_app(), ["bench", "serve", "--db", "postgres"])
    assert (ran.exit_code, "db: a server is measured on sqlite" in " ".join(ran.stderr.split())) == (2, True), ran.output


@pytest.mark.parametrize(("values", "at", "expected"), [([], 0.5, None), ([3.0], 0.95, 3.0), ([4.0, 1.0, 3.0, 2.0], 0.5, 3.0)])
def test_a_quantile_is_a_value_that_was_measured(values: list[float], at: float, expected: float | None) -> None:
    assert quantile(values, at) == expected
