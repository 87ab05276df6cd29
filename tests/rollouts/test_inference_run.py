"""The policy `openai` in whole episodes: a scripted server, real environments, and the command as a user runs it."""

import inspect
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio.from_thread
import pytest
from typer.testing import CliRunner

from tests.rollouts.summing import adds_up
from wardian.cli import build_app, endpoint
from wardian.cli.eval import evaluate
from wardian.cli.run import run
from wardian.envs.action import Action, Message, Observation, ToolCalls
from wardian.envs.registry import load_world
from wardian.rollouts.errors import PolicyGone, PolicyHopeless
from wardian.rollouts.inference.endpoint import Endpoint
from wardian.rollouts.inference.fake import Asked, Completes, Doing, Drops, FakeEndpoint, Script, Sends, calls_of
from wardian.rollouts.inference.options import EndpointOptions
from wardian.rollouts.inference.policy import EndpointPolicy
from wardian.rollouts.inference.reading import CUT_OFF
from wardian.rollouts.trajectory import FILE, TrajectoryLog, validate
from wardian.tools.completions import CallFormat


def clerk(asked: Asked) -> Action:
    """What the toy's reference solution does next, from the chat alone."""
    solution = load_world("toy").families[0].reference(Observation("", 0))
    action = next(solution)
    for message in asked.body["messages"][2:]:
        if message["role"] != "assistant":
            action = solution.send(Observation("", 0, tuple(json.loads(line) for line in message["content"].split("\n"))))
    return action


def by_api(asked: Asked) -> Doing:
    action = clerk(asked)
    if isinstance(action, Message):
        return Completes(action.text, usage={"prompt_tokens": 100, "completion_tokens": 9})
    assert isinstance(action, ToolCalls)
    calls = calls_of(*((call.tool, dict(call.args)) for call in action.calls))  # type: ignore[arg-type]
    return Completes("I go on.", calls, "tool_calls")


def by_text(asked: Asked) -> Doing:
    assert "tools" not in asked.body
    assert '"name": "lend_item"' in asked.body["messages"][0]["content"]
    action = clerk(asked)
    if isinstance(action, Message):
        return Completes(action.text)
    assert isinstance(action, ToolCalls)
    calls = [json.dumps({"name": call.tool, "arguments": call.args}) for call in action.calls]
    return Completes("<think>What now?</think>" + "".join(f"<tool_call>{call}</tool_call>" for call in calls))


@pytest.mark.parametrize("command", [run, evaluate])
def test_a_command_takes_every_option_of_an_endpoint(command: Callable[..., None]) -> None:
    wanted = {*endpoint.NAMES, "base_url", "model", "api_key_env", "tool_calls", "request"}
    assert wanted <= inspect.signature(command).parameters.keys()


@pytest.fixture
def serving() -> Iterator[Callable[[Script], FakeEndpoint]]:
    """Fakes that are served from a thread, for commands in other processes."""
    with anyio.from_thread.start_blocking_portal() as portal, ExitStack() as stack:

        def serve(script: Script) -> FakeEndpoint:
            fake = FakeEndpoint(script)
            return stack.enter_context(portal.wrap_async_context_manager(fake.serve()))

        yield serve


def test_a_model_behind_an_endpoint_solves_toy_tasks_and_replays(
    wardian: Any, serving: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_KEY", "s3cret")
    fake = serving(by_api)
    options = ("--base-url", fake.base_url, "--model", "m-1", "--api-key-env", "FAKE_KEY", "--streaming")
    out = tmp_path / "out"
    ran = wardian(
        "run",
        "toy",
        "--policy",
        "openai",
        "--episodes",
        3,
        "--family",
        "lending-desk",
        "--difficulty",
        "easy",
        "--faults",
        "mild",
        "--json",
        "--out",
        out,
        *options,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert (found["success_rate"], found["masked"], found["call_problems"]) == (1.0, 0, {})
    assert {asked.headers["authorization"] for asked in fake.asked} == {"Bearer s3cret"}
    assert not any("s3cret" in file.read_text() for file in out.iterdir())
    assert wardian("replay", out).stdout.splitlines()[-1] == "identical 3/3"


def test_a_wrong_key_ends_the_run_as_a_usage_error_that_does_not_show_it(
    wardian: Any, serving: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_KEY", "s3cret")
    fake = serving(lambda asked: Sends(401, '{"error": {"message": "no such key: s3cret"}}'))
    options = ("--policy", "openai", "--base-url", fake.base_url, "--model", "m", "--api-key-env", "FAKE_KEY", "--out", tmp_path / "out")
    ran = wardian("run", "toy", "--episodes", 500, "--cells", 2, *options)
    assert (ran.returncode, "no such key: (key)" in ran.stderr) == (2, True)
    assert "check --base-url, --model and --api-key-env" in ran.stderr
    assert not any("s3cret" in text for text in (ran.stdout, ran.stderr, (tmp_path / "out" / FILE).read_text()))
    assert len(fake.asked) <= 2
    causes = {end.end_cause for end in ends_of(tmp_path / "out")}
    assert causes <= {"policy_refused", "cancelled"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "openai needs --base-url and --model"),
        (("--base-url", "http://x/v1", "--model", "m", "--tool-calls", "yaml"), "tool-calls: no 'yaml'"),
        (("--base-url", "http://x/v1", "--model", "m", "--request", "[1]"), "request: must be one JSON object"),
        (("--base-url", "http://x/v1", "--model", "m", "--api-key-env", "NOT_THERE"), "has no NOT_THERE"),
    ],
)
def test_wrong_options_are_answered_before_anything_starts(options: tuple[str, ...], message: str) -> None:
    ran = CliRunner().invoke(build_app(), ["run", "toy", "--policy", "openai", *options])
    assert (ran.exit_code, message in ran.stderr) == (2, True), ran.stderr


def ends_of(out: Path) -> list[Any]:
    log = TrajectoryLog.open(out)
    return [log.attempts(name)[-1].end for name in log.episodes]


async def played(player: Any, out: Path, script: Script, episodes: int = 1, **options: Any) -> tuple[FakeEndpoint, Any]:
    """Play against a fake without waiting between tries."""

    async def at_once(wait_s: float) -> None:
        await anyio.lowlevel.checkpoint()

    fake = FakeEndpoint(script)
    async with fake.serve(), EndpointPolicy(Endpoint(EndpointOptions(fake.base_url, "m", **{"tries": 2, **options}), at_once)) as policy:
        return fake, await player.play(out, policy, episodes=episodes)


def first_calls(*calls: Any, text: str | None = None, finish: str = "tool_calls") -> Script:
    """Answers first with these calls, then with a message."""
    return lambda asked: Completes("Bye.") if asked.number else Completes(text, calls, finish)


@pytest.mark.anyio
async def test_calls_in_text_solve_toy_tasks(player: Any, tmp_path: Path) -> None:
    _, tally = await played(player, tmp_path, by_text, text_format=CallFormat.TAGS)
    assert (tally.whole.succeeded, dict(tally.problems)) == (1, {})
    sample = TrajectoryLog.open(tmp_path).attempts("test-00000")[0].steps[0].sample
    assert sample is not None
    assert sample.raw is not None
    assert sample.raw.startswith("<think>What now?</think><tool_call>")


@pytest.mark.anyio
async def test_several_calls_run_in_order_and_their_results_come_back_by_id(player: Any, tmp_path: Path) -> None:
    calls = calls_of(("show_item", {"item_id": 101}), ("show_member", {"member_id": 1}), ("show_item", {"item_id": 102}))
    fake, _ = await played(player, tmp_path, first_calls(*calls))
    messages = fake.asked[1].body["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "tool", "tool"]
    assert [message["tool_call_id"] for message in messages[3:]] == ["call_0", "call_1", "call_2"]
    assert [next(iter(json.loads(message["content"])["result"].values())) for message in messages[3:]] == [101, 1, 102]
    assert [tool["function"]["name"] for tool in fake.asked[0].body["tools"]].count("lend_item") == 1


BAD_CALLS: dict[str, tuple[Any, str]] = {
    "arguments that do not parse": ({"id": "a", "function": {"name": "show_item", "arguments": '{"item_id": 1'}}, "malformed_call"),
    "a tool that there is not": ({"id": "a", "function": {"name": "sell_item", "arguments": "{}"}}, "unknown_tool"),
    "null": ({"id": "a", "function": {"name": "show_item", "arguments": None}}, "malformed_call"),
    "a wrong type": ({"id": "a", "function": {"name": "show_item", "arguments": {"item_id": "x"}}}, "invalid_arguments"),
    "no name": ({"id": "a", "function": {"arguments": "{}"}}, "malformed_call"),
    "no function": ({"id": "a"}, "malformed_call"),
}


@pytest.mark.anyio
@pytest.mark.parametrize("name", BAD_CALLS)
async def test_a_bad_call_is_answered_to_the_model_and_the_episode_goes_on(player: Any, tmp_path: Path, name: str) -> None:
    call, status = BAD_CALLS[name]
    fake, tally = await played(player, tmp_path, first_calls(call))
    assert json.loads(fake.asked[1].body["messages"][-1]["content"])["status"] == status
    assert (tally.whole.masked, tally.ends["terminated"], tally.outcomes[status]) == (0, 1, 1)
    for message in fake.asked[1].body["messages"]:
        assert all(isinstance(json.loads(part["function"]["arguments"]), dict) for part in message.get("tool_calls", ()))


@pytest.mark.anyio
async def test_output_that_was_cut_off_is_malformed_and_keeps_its_text(player: Any, tmp_path: Path) -> None:
    await played(player, tmp_path, first_calls(*calls_of(("show_item", {"item_id": 101})), text="Let me", finish="length"))
    action = TrajectoryLog.open(tmp_path).attempts("test-00000")[0].steps[0].action
    assert (action.type, action.reason) == ("malformed", CUT_OFF)
    assert action.raw is not None
    assert action.raw.startswith("Let me\n[")


@pytest.mark.anyio
async def test_an_endpoint_that_goes_away_masks_its_episode_and_no_other(player: Any, tmp_path: Path) -> None:
    _, tally = await played(player, tmp_path, lambda asked: Sends(500, "gone") if asked.number == 2 else Completes("Bye."), 5, tries=1)
    assert (tally.whole.episodes, tally.whole.judged, dict(tally.masked)) == (5, 4, {"policy_unavailable": 1})
    lost_end = next(end for end in ends_of(tmp_path) if not end.mask)
    assert (lost_end.outcome, lost_end.reward, lost_end.retried) == ("failed", None, False)
    assert "the last: HTTP 500: gone" in lost_end.detail


@pytest.mark.anyio
async def test_an_endpoint_that_is_gone_ends_the_run_before_it_masks_every_later_episode(player: Any, tmp_path: Path) -> None:
    with pytest.raises(PolicyGone, match=r"the endpoint is gone: 3 episodes in a row could not ask it; .* HTTP 500: gone"):
        await played(player, tmp_path, lambda asked: Completes("Bye.") if asked.number < 5 else Sends(500, "gone"), 50, gone_after=3)
    causes = [end.end_cause for end in ends_of(tmp_path)]
    assert causes.count("message") >= 2
    assert (causes.count("policy_unavailable") <= 3, causes.count("cancelled") >= 1, len(causes) < 10) == (True, True, True)


@pytest.mark.anyio
async def test_answers_in_between_say_that_the_endpoint_is_there(player: Any, tmp_path: Path) -> None:
    every_third = lambda asked: Completes("Bye.") if asked.number % 3 == 0 else Sends(500, "busy")  # noqa: E731
    _, tally = await played(player, tmp_path, every_third, 12, tries=1, gone_after=5)
    assert (tally.whole.judged, dict(tally.masked)) == (4, {"policy_unavailable": 8})


def test_a_run_whose_endpoint_is_gone_sums_up_and_goes_on_later(serving: Any, tmp_path: Path) -> None:
    there = [True] * 3
    fake = serving(lambda asked: Completes("Bye.") if there and (there.pop() or True) else Drops(Completes("")))
    options = ["--policy", "openai", "--base-url", fake.base_url, "--model", "m", "--tries", "1", "--gone-after", "2"]
    command = ["run", "toy", "--episodes", "9", "--cells", "1", "--no-progress", "--json", "--out", str(tmp_path / "out"), *options]
    ended = CliRunner().invoke(build_app(), command)
    found = json.loads(ended.stdout.splitlines()[-1])
    assert (ended.exit_code, found["interrupted"], found["episodes"], found["masked"]) == (1, True, 4, 1), ended.output
    adds_up(found, tmp_path / "out")
    assert "ended early: the endpoint is gone: 2 episodes in a row could not ask it" in ended.stderr
    assert f"give the same command again to go on in {tmp_path / 'out'}" in ended.stderr
    there += [True] * 9
    again = CliRunner().invoke(build_app(), command)
    found = json.loads(again.stdout.splitlines()[-1])
    assert (again.exit_code, found["interrupted"], found["episodes"], found["masked"]) == (0, False, 9, 1), again.output
    adds_up(found, tmp_path / "out")
    assert [str(finding) for _, findings in validate(tmp_path / "out") for finding in findings] == []


@pytest.mark.anyio
async def test_a_refusal_after_answers_is_one_episode_of_its_own_cause(player: Any, tmp_path: Path) -> None:
    refuses = Sends(400, '{"error": {"message": "longer than the context"}}')
    _, tally = await played(player, tmp_path, lambda asked: refuses if asked.number == 1 else Completes("Bye."), episodes=4)
    assert (tally.whole.judged, dict(tally.masked)) == (3, {"policy_refused": 1})


@pytest.mark.anyio
async def test_an_endpoint_that_never_answered_ends_the_run_after_some_episodes(player: Any, tmp_path: Path) -> None:
    with pytest.raises(PolicyHopeless, match=r"gave no answer in 2 tries.*it has answered nothing yet"):
        await played(player, tmp_path, lambda asked: Drops(Completes("")), episodes=50)
    assert sum(end.end_cause == "policy_unavailable" for end in ends_of(tmp_path)) in (3, 4)


@pytest.mark.anyio
async def test_further_fields_are_sent_and_none_that_was_not_given(player: Any, tmp_path: Path) -> None:
    fake, _ = await played(player, tmp_path, first_calls(), temperature=0.5, max_tokens=77, extra={"top_p": 0.9})
    body = dict(fake.asked[0].body)
    assert {name: body.pop(name) for name in ("model", "temperature", "max_tokens", "top_p")} == {
        "model": "m",
        "temperature": 0.5,
        "max_tokens": 77,
        "top_p": 0.9,
    }
    assert set(body) == {"messages", "tools"}


def test_a_model_behind_an_endpoint_is_evaluated(wardian: Any, serving: Any) -> None:
    fake = serving(by_api)
    options = ("--policy", "openai", "--base-url", fake.base_url, "--model", "m-1", "--family", "lending-desk", "--difficulty", "easy")
    ran = wardian("eval", "toy", *options, "--tasks", 1, "--repeats", 1, "--faults", "none", "--json")
    assert ran.returncode == 0, ran.stderr
    (found,) = json.loads(ran.stdout.splitlines()[-1])["evaluations"]
    assert fake.asked
    assert found["profiles"], found


def test_a_model_without_the_policy_that_has_one_is_refused(wardian: Any) -> None:
    ran = wardian("eval", "toy", "--policy", "expert", "--model", "m-1")
    assert (ran.returncode, "model: only the policy openai has one" in ran.stderr.replace("\n", " ")) == (2, True), ran.stderr
