"""A tag is a function of the sources, and a present image is never built again."""

import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import docker
import pytest

from wardian.sandbox import images
from wardian.sandbox.errors import CellUnavailable
from wardian.sandbox.images import PACKAGE, agent_image, base_image, ensure_images, image_present


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the sources that images are built from."""
    shutil.copytree(PACKAGE / "images", tmp_path / "images")
    (tmp_path / "sandbox").mkdir()
    shutil.copy(PACKAGE / "sandbox" / "supervisor.py", tmp_path / "sandbox")
    return tmp_path


def test_tags_are_the_same_wherever_the_sources_lie(package: Path) -> None:
    assert (base_image(package), agent_image(package)) == (base_image(), agent_image())


@pytest.mark.parametrize("source", ["images/agent/Dockerfile", "sandbox/supervisor.py"])
def test_a_changed_source_of_the_agent_changes_its_tag_only(package: Path, source: str) -> None:
    (package / source).write_text("# other\n")
    assert agent_image(package) != agent_image()
    assert base_image(package) == base_image()


@pytest.mark.parametrize("source", ["images/base/Dockerfile", "images/base/mmdebstrap.args"])
def test_a_changed_source_of_the_base_changes_both_tags(package: Path, source: str) -> None:
    (package / source).write_text("# other\n")
    assert agent_image(package) != agent_image()
    assert base_image(package) != base_image()


def test_documentation_changes_no_tag(package: Path) -> None:
    (package / "images" / "agent" / "README.md").write_text("other")
    assert agent_image(package) == agent_image()


def test_a_missing_source_is_named(package: Path) -> None:
    (package / "sandbox" / "supervisor.py").unlink()
    with pytest.raises(CellUnavailable, match=r"supervisor\.py: no image without this source"):
        agent_image(package)


def test_present_images_are_not_built_again() -> None:
    lines: list[str] = []
    references = ensure_images(lines.append)
    assert references == (base_image(), agent_image())
    assert lines == []


def test_an_unknown_reference_is_not_present() -> None:
    assert not image_present("wardian-agent:000000000000")


def test_the_agent_image_has_no_setuid_bit_and_a_supervisor_that_only_root_may_replace() -> None:
    script = """
        find / -xdev -perm /6000 -type f
        stat -c '%U %a' /opt/wardian/supervisor.py /opt/wardian/supervisor.pyc /opt/wardian
        ls /etc/apt/sources.list* || true
    """
    client = docker.from_env()
    output = client.containers.run(agent_image(), [script], entrypoint=["bash", "-c"], user="agent", network_mode="none", remove=True)
    client.close()
    assert output.decode().split("\n") == ["root 444", "root 444", "root 755", ""]


class SilentRegistry(BaseHTTPRequestHandler):
    """An engine that holds no image, and whose pull never answers until `ended` is set."""

    ended = threading.Event()

    def do_GET(self) -> None:
        found = self.path.endswith("/version")
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(b'{"ApiVersion": "1.41"}' if found else b'{"message": "No such image"}')

    def do_POST(self) -> None:
        self.ended.wait(60)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def silent_engine() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), SilentRegistry)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"tcp://127.0.0.1:{server.server_port}"
    SilentRegistry.ended.set()
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_registry_that_says_nothing_is_given_up(silent_engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", silent_engine)
    monkeypatch.setattr(images, "PULL_ANSWER_S", 0.2)
    client, lines = docker.from_env(), list[str]()
    assert images._pulled_root(client, lines.append) is None
    client.close()
    assert "no answer within 0.2 s" in lines[0]
