"""The doctor's answer, on the engine that the tests use."""

import json
import subprocess
import sys

WARDIAN = (sys.executable, "-c", "from wardian.cli import main; main()")


def test_json_is_one_object_whose_checks_say_what_to_do() -> None:
    done = subprocess.run([*WARDIAN, "doctor", "--json"], capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout)
    assert answer["usable"] is (done.returncode == 0)
    assert {"engine_version", "storage_driver", "cgroup_version", "overlay_depth", "apparmor", "agent_image"} <= answer["checks"].keys()
    assert {"restore_tier", "free_disk_mib", "free_memory_mib", "open_files", "inotify_max_user_instances"} <= answer["checks"].keys()
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
    assert "make engine" in engine["what_to_do"]
