"""Foreign images become cells, or say why they cannot, before any episode."""

import io
import json
import platform
import re
import struct
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import pytest
from typer.testing import CliRunner, Result

from wardian.cli import build_app
from wardian.envs.errors import TaskError
from wardian.envs.playing import play_reference
from wardian.envs.registry import cell_spec, load_world, open_environment
from wardian.sandbox.adoption import adopted
from wardian.sandbox.adoption.adopted import cell_image
from wardian.sandbox.adoption.history import histories, repositories
from wardian.sandbox.adoption.source import PINNED, exported
from wardian.sandbox.cell import Cell, Command, ExecOutcome, Tier
from wardian.sandbox.docker_cell import make_cell
from wardian.sandbox.engine import Engine
from wardian.sandbox.errors import ImageUnfit
from wardian.sandbox.images import LABEL, agent_image, base_image
from wardian.sandbox.probe import UID
from wardian.sandbox.supervisor import Settings
from wardian.tools.packs.shell import SHELL

pytestmark = pytest.mark.anyio

DOCS = Path(__file__).parents[2] / "docs" / "images.md"
SMALL = f"""
FROM {base_image()} AS given
RUN mkdir -p /out/bin /out/data && cp /bin/dash /out/bin/sh && echo kept > /out/data/file \\
 && cp --parents -L $(ldd /bin/dash | grep -o '/[^ ]*') /out
FROM scratch
COPY --from=given /out /
ENV PATH=/bin HOME=/root WORDS='a $b "c"' LD_PRELOAD=/none.so
USER 1234
WORKDIR /srv
VOLUME /data
ENTRYPOINT ["/bin/sh", "-c"]
ONBUILD RUN false
HEALTHCHECK CMD true
"""
"""No bash, no Python, no users, no /tmp, and every instruction that a cell must not take over."""
CLONE = f"""
FROM {agent_image()}
ENV GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
RUN git init -q -b main /srv/repo && cd /srv/repo \\
 && echo one > file && git add -A && git commit -qm base && git tag -a -m first v1 \\
 && echo two > file && git commit -qam 'the solution' && git tag -a -m second v2 && git reset -q --hard HEAD~1 \\
 && echo three | git hash-object -w --stdin \\
 && git config core.fsmonitor 'touch /tmp/ran' && git config core.pager 'touch /tmp/ran' \\
 && git init -q --bare /root/private.git && chmod 700 /root
"""
"""A clone at an old commit that knows a later one by a tag and a reflog, and a text that nothing leads to."""
ONE_PROGRAM = "FROM scratch\nADD content.tar /\n"


def hello() -> bytes:
    """A static program that writes `hello`, as a Go image holds one: headers of ELF, then write(1, text, 6) and exit(0)."""
    code = bytes.fromhex("b801000000 bf01000000 488d3510000000 ba06000000 0f05 b83c000000 31ff 0f05") + b"hello\n"
    at = 0x400000
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, at + 120, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    return header + struct.pack("<IIQQQQQQ", 1, 5, 0, at, at, 120 + len(code), 120 + len(code), 4096) + code


def tar(files: Mapping[str, bytes | None]) -> bytes:
    """A tar of programs by path; `None` is a directory."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for path, data in files.items():
            entry = tarfile.TarInfo(path)
            entry.mode, entry.size, entry.type = 0o755, len(data or b""), tarfile.DIRTYPE if data is None else tarfile.REGTYPE
            archive.addfile(entry, io.BytesIO(data or b""))
    return target.getvalue()


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    """At the end, what it made is removed."""
    client = docker.from_env()
    yield client
    for image in client.images.list():
        if any(tag.startswith("wardian-test/") for tag in image.tags):
            for tag in image.tags:
                client.images.remove(tag, force=True)
    client.close()


def candidates(client: docker.DockerClient) -> list[str]:
    """What adoption made and should not leave: images to be tried, and those without a tag."""
    tagged = [tag for image in client.images.list() for tag in image.tags if tag.endswith("-untried")]
    untagged = client.api.images(filters={"dangling": True, "label": f"{LABEL}={adopted.ADOPTED}"})
    return tagged + [image["Id"] for image in untagged if adopted.FACTS not in image["Labels"]]


def build(client: docker.DockerClient, name: str, dockerfile: str, files: Mapping[str, bytes | None]) -> str:
    context = io.BytesIO(tar({"Dockerfile": dockerfile.encode(), "content.tar": tar(files)}))
    client.images.build(fileobj=context, custom_context=True, tag=f"wardian-test/{name}", rm=True)
    return f"wardian-test/{name}"


def wardian(*arguments: str) -> Result:
    return CliRunner().invoke(build_app(), arguments)


def invoke(*arguments: str) -> Result:
    return wardian("image", "adopt", *arguments)


@pytest.fixture(scope="module")
def both(client: docker.DockerClient) -> list[dict[str, Any]]:
    """What two commands said that adopted one image at the same time."""
    arguments = [build(client, "small", SMALL, {}), "--json", "--tag", "wardian-test/small-adopted:1"]
    command = [sys.executable, "-c", "from wardian.cli import main; main()", "image", "adopt", *arguments]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [one.communicate(timeout=120)[0] for one in running]
    assert [one.returncode for one in running] == [0, 0], said
    return [json.loads(text) for text in said]


@pytest.fixture(scope="module")
def small(both: list[dict[str, Any]]) -> dict[str, Any]:
    return both[0]


@pytest.fixture(scope="module")
def one_program(client: docker.DockerClient) -> str:
    if platform.machine() != "x86_64":
        pytest.skip("the program is one for x86_64")
    done = invoke(build(client, "one", ONE_PROGRAM, {"hello": hello()}), "--tag", "wardian-test/one-adopted")
    assert done.exit_code == 0, done.output
    return "wardian-test/one-adopted"


async def run_once(engine: Engine, image: str, command: Command, tier: Tier) -> tuple[str, str]:
    """What a command in a new cell of the toy world wrote, and why it could not start."""
    cell: Cell = make_cell(cell_spec(load_world("toy"), tier, image=image), engine, UID)
    try:
        await cell.start()
        await cell.restore()
        done = await cell.exec(command)
        assert done.outcome in (ExecOutcome.EXITED, ExecOutcome.COULD_NOT_START)
        return done.stdout.text(), done.detail
    finally:
        await cell.stop()


def test_an_image_without_python_bash_or_users_works_in_both_tiers(small: dict[str, Any]) -> None:
    assert {name: tier["works"] for name, tier in small["tiers"].items()} == {"chamber": True, "fresh": True}
    assert [check["check"] for check in small["tiers"]["fresh"]["checks"]] == ["start", "files", "shell", "changes", "reset", "deep pass"]
    assert small["shell"] == "/bin/sh"
    assert small["added"] == ["/etc/passwd", "/etc/group", "/tmp"]


@pytest.mark.parametrize("tier", list(Tier))
async def test_commands_get_the_images_variables_and_not_those_that_are_pinned(engine: Engine, small: dict[str, Any], tier: Tier) -> None:
    script = 'echo "$PATH|$HOME|$WORDS|$LD_PRELOAD|$SHELL"; cat() { read -r line < "$1"; echo "$line"; }; cat /data/file'
    said, problem = await run_once(engine, small["tag"], Command(script=script), tier)
    assert said == '/bin|/workspace|a $b "c"|/none.so|/bin/sh\nkept\n', problem


def test_what_a_cell_does_not_take_over_is_said(small: dict[str, Any]) -> None:
    assert set(small["not_taken_over"]) == {"USER", "WORKDIR", "ENTRYPOINT", "VOLUME", "ONBUILD", "HEALTHCHECK", "ENV"}


def test_an_image_with_volumes_leaves_no_volume(client: docker.DockerClient, small: dict[str, Any]) -> None:
    assert not client.images.get(small["tag"]).attrs["Config"].get("Volumes")
    assert not [one for one in client.volumes.list() if not one.attrs.get("Labels")]


@pytest.mark.parametrize("tier", list(Tier))
async def test_an_image_of_one_static_program_runs_it_and_no_script(engine: Engine, one_program: str, tier: Tier) -> None:
    assert await run_once(engine, one_program, Command(argv=("/hello",)), tier) == ("hello\n", "")
    said, problem = await run_once(engine, one_program, Command(script="true"), tier)
    assert said == ""
    assert "has no shell" in problem


async def test_the_interpreter_of_the_supervisor_is_none_of_the_agents(engine: Engine, one_program: str) -> None:
    said, problem = await run_once(engine, one_program, Command(argv=("/opt/wardian/python/bin/python3",)), Tier.CHAMBER)
    assert (said, "permission denied" in problem.lower()) == ("", True)


async def test_a_world_is_solved_in_an_image_of_one_program(one_program: str) -> None:
    async with open_environment(load_world("toy"), image=one_program) as env:
        verdict = (await play_reference(env, "lending-desk/easy/seed-1")).last.info.verdict
    assert verdict is not None
    assert verdict.succeeded


def test_a_world_with_the_tool_shell_is_refused_where_there_is_no_shell(one_program: str) -> None:
    toy = load_world("toy")
    with pytest.raises(TaskError, match="has no shell, which the tool 'shell' of the world toy needs"):
        cell_spec(replace(toy, tools=(*toy.tools, SHELL)), image=one_program)


def test_a_name_leads_to_the_tag_that_says_what_is_in_it(small: dict[str, Any]) -> None:
    assert cell_image("wardian-test/small-adopted:1").reference == small["image"]
    assert cell_image().reference == agent_image()


def test_two_adoptions_at_once_give_one_image(client: docker.DockerClient, both: list[dict[str, Any]]) -> None:
    assert both[0] == both[1] | {"tiers": both[0]["tiers"]}
    assert not candidates(client)


def test_an_image_that_was_adopted_by_other_sources_is_refused(small: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adopted, "recipe", lambda: "another")
    with pytest.raises(ImageUnfit, match="adopted by another version; run `wardian image adopt wardian-test/small` again"):
        cell_image(small["image"])


def test_an_image_that_can_be_no_cell_leaves_nothing_and_ends_with_1(client: docker.DockerClient) -> None:
    done = invoke(build(client, "broken", ONE_PROGRAM, {"etc/passwd/": None}), "--json")
    answer = json.loads(done.stdout)
    assert (done.exit_code, answer["usable"], answer["image"]) == (1, False, None)
    assert "is a directory" in answer["tiers"]["chamber"]["checks"][0]["detail"]
    assert not candidates(client)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["wardian-test/nowhere"], "the engine holds no 'wardian-test/nowhere'"),
        (["wardian-test/small-adopted:1"], "adopted already, from wardian-test/small"),
        (["wardian-test/small", "--tag", base_image()], "is another image"),
        ([agent_image()], "is ours, and cells run it as it is"),
        (["wardian-test/small", "--tag", "Not A Name"], "is no name of an image"),
        (["wardian-test/preloading"], "loads libraries into every program"),
    ],
)
def test_what_cannot_be_adopted_is_said_at_once(
    client: docker.DockerClient, small: dict[str, Any], arguments: list[str], problem: str
) -> None:
    build(client, "preloading", ONE_PROGRAM, {"etc/ld.so.preload": b"/some.so\n"})
    done = invoke(*arguments)
    assert (done.exit_code, problem in done.stderr) == (2, True), done.output


def test_a_run_on_an_adopted_image_is_replayed_on_it(small: dict[str, Any], tmp_path: Path) -> None:
    played = wardian("run", "toy", "--image", small["tag"], "--episodes", "2", "--faults", "realistic", "--out", str(tmp_path), "--json")
    assert json.loads(played.stdout)["success_rate"] == 1.0, played.output
    assert f'"image": "{small["image"]}"' in (tmp_path / "trajectories.jsonl").read_text()
    assert wardian("replay", str(tmp_path)).stdout == "identical 2/2\n"


def test_an_image_that_was_built_on_an_adopted_one_is_another(client: docker.DockerClient, small: dict[str, Any]) -> None:
    on_top = build(client, "on-top", f"FROM {small['tag']}\nADD content.tar /\n", {"more": b""})
    with pytest.raises(ImageUnfit, match="run `wardian image adopt wardian-test/on-top`"):
        cell_image(on_top)


def test_an_image_that_was_never_adopted_is_refused_with_advice() -> None:
    with pytest.raises(ImageUnfit, match="run `wardian image adopt wardian-base:"):
        cell_image(base_image())


async def test_what_git_holds_beside_head_is_found_and_the_page_takes_it_out(client: docker.DockerClient, engine: Engine) -> None:
    mended = next(block for block in DOCS.read_text().split("```") if "update-ref" in block).partition("\n")[2]
    clone = build(client, "clone", CLONE, {})
    clean = build(client, "clean", f"FROM {clone}\n{mended.replace('/your/repo', '/srv/repo')}", {})
    with exported(client, clone) as tree:
        folders = repositories(tree)
    assert folders == ("/root/private.git", "/srv/repo/.git")
    private, found = await histories(engine, clone, Tier.CHAMBER, folders)
    assert (private.clean, found.clean, found.commits, found.objects, found.problem) == (True, False, 1, 1, "")
    assert [re.sub(r"^[0-9a-f]{7} \d{4}-\d\d-\d\d ", "", line) for line in found.shown] == ["(tag: v2) the solution"]
    assert [one.clean for one in await histories(engine, clean, Tier.CHAMBER, folders)] == [True, True]


def test_an_image_whose_git_may_hold_the_answer_is_kept_only_where_that_is_allowed(client: docker.DockerClient) -> None:
    parts = {f"app/.git/{name}": data for name, data in (("HEAD", b"ref: refs/heads/main\n"), ("objects/", None), ("refs/", None))}
    image = build(client, "nogit", ONE_PROGRAM, {"hello": hello(), "app/": None, "app/.git/": None, **parts})
    refused, kept = invoke(image), invoke(image, "--allow-git-history", "--tag", "wardian-test/kept")
    assert refused.exit_code == 1
    assert "git: /app/.git: cannot be looked at: the image has no git" in refused.stdout
    assert "or give --allow-git-history" in refused.stdout
    assert not candidates(client)
    assert (kept.exit_code, kept.stdout.splitlines()[-1]) == (0, "wardian-test/kept"), kept.output


def test_the_pinned_variables_are_those_of_the_supervisor() -> None:
    numbers = dict.fromkeys(("uid", "disk_mib", "shm_mib", "processes", "open_files", "file_size_mib", "inodes", "sockets_mib"), 1)
    settings = Settings(json.dumps({"tier": "chamber", "hostname": "h", "workdir": "/workspace", "sysctls": {}, **numbers}))
    assert settings.environment.keys() - {"PATH"} == PINNED
