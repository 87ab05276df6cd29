"""The doctor's answer, on the engine that the tests use."""

import json
import subprocess
import sys

import pytest

from wardian.cli.engine import _print_table
from wardian.sandbox.checks import Check, Status
from wardian.sandbox.database.checks import postgres_checks
from wardian.sandbox.database.postgres.facts import Facts
from wardian.sandbox.doctor import Diagnosis, _desktop_checks, _processor_check
from wardian.sandbox.engine import ADVICE
from wardian.sandbox.images import HINT

WARDIAN = (sys.executable, "-c", "from wardian.cli import main; main()")


def test_json_is_one_object_whose_checks_say_what_to_do() -> None:
    done = subprocess.run([*WARDIAN, "doctor", "--json"], capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout)
    assert answer["usable"] is (done.returncode == 0)
    assert {"engine_version", "storage_driver", "cgroup_version", "overlay_depth", "apparmor", "agent_image"} <= answer["checks"].keys()
    assert {"restore_tier", "free_disk_mib", "free_memory_mib", "open_files", "inotify_max_user_instances"} <= answer["checks"].keys()
    assert {"postgres_driver", "postgres_image", "postgres_room_mib"} <= answer["checks"].keys()
    for name, check in answer["checks"].items():
        assert check.keys() == {"status", "value", "detail", "what_to_do"}, name
        assert (check["status"] == "ok") == (check["what_to_do"] == ""), name


def test_the_engine_of_the_tests_is_usable() -> None:
    done = subprocess.run([*WARDIAN, "doctor"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "usable" in done.stdout


def test_an_absent_engine_is_a_finding_with_advice() -> None:
    environment = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}
    done = subprocess.run([*WARDIAN, "doctor", "--json"], env=environment, capture_output=True, text=True, check=False)
    engine = json.loads(done.stdout)["checks"]["engine_version"]
    assert done.returncode == 1
    assert engine["status"] == "failure"
    assert (engine["what_to_do"], "make engine" in engine["detail"]) == (ADVICE, False)


def test_advice_for_several_checks_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    absent = [Check(name, Status.FAILURE, None, "not built", HINT) for name in ("base_image", "agent_image", "restore_tier")]
    _print_table(Diagnosis(tuple(absent)))
    shown = " ".join(capsys.readouterr().out.split())
    assert (shown.count("make build-images"), shown.count("as above")) == (1, 2)


@pytest.mark.parametrize(("machine", "status"), [("x86_64", "ok"), ("aarch64", "warning"), ("riscv64", "failure")])
def test_a_processor_without_a_filter_is_a_failure_and_one_that_was_never_tried_a_warning(machine: str, status: str) -> None:
    assert _processor_check(machine).status == status


def test_docker_desktop_is_said_to_be_untried() -> None:
    assert [check.status for check in _desktop_checks("Docker Desktop")] == ["warning"]
    assert _desktop_checks("Debian GNU/Linux 12 (bookworm)") == ()


def test_a_postgres_server_that_was_named_is_looked_at(postgres_url: str) -> None:
    found = {check.name: check for check in postgres_checks(postgres_url, 0, None)}
    assert {found[f"postgres_{name}"].status for name in ("server", "waits_for_disk", "without_now")} == {Status.OK}
    assert int(found["postgres_connections"].value or 0) > 100


@pytest.mark.parametrize("url", ["postgresql://someone:secret@127.0.0.1:1/postgres", "postgresql://[secret", "secret"])
def test_a_postgres_server_that_was_named_and_is_not_there_is_a_failure(url: str) -> None:
    found = postgres_checks(url, 0, None)[-1]
    assert (found.name, found.status) == ("postgres_server", Status.FAILURE)
    assert "--db-url" in found.what_to_do
    assert "secret" not in f"{found.value} {found.detail}"


@pytest.mark.parametrize(("facts", "said"), [
    (Facts(130004, True, 80, False, True), "14 or later"),
    (Facts(150004, False, 80, False, True), "superuser"),
    (Facts(150004, True, 3, False, True), "max_connections"),
    (Facts(150004, True, 4, True, True), None),
])  # fmt: skip
def test_a_server_that_does_not_suit_says_what_it_needs(facts: Facts, said: str | None) -> None:
    assert said in (facts.problem() or "") if said else facts.problem() is None


def test_a_machine_without_memory_for_databases_is_told_of_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {check.name: check for check in postgres_checks(None, 4096, 1000)}["postgres_room_mib"]
    assert (found.status, found.value) == (Status.WARNING, 2048)
    assert "--db-url" in found.what_to_do
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert [(check.name, check.status) for check in postgres_checks(None, 4096, 9000)] == [("postgres_driver", Status.WARNING)]
