"""TRL's own loop over `environment_factory`: methods made of our schemas, and leases that end although TRL never closes anything."""

import inspect
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from transformers.utils import get_json_schema
from trl import GRPOTrainer

from tests.trainers.trl.plans import BREAKS, ENDLESS, GOOD, REFUSED, SLOW, TOO_SLOW, WRONG, speaking
from wardian.trainers.client import BlockingClient
from wardian.trainers.trl import WardianSpec
from wardian.trainers.trl.environment import OVER
from wardian.trainers.trl.methods import class_of, described

Trained = Callable[..., GRPOTrainer]


@pytest.fixture(scope="module")
def spec(url: str) -> Iterator[WardianSpec]:
    made = WardianSpec(url, families=["echoes"], difficulties=["easy"], retries=0)
    yield made
    made.close()


@pytest.fixture
def row(spec: WardianSpec) -> dict[str, Any]:
    found: dict[str, Any] = spec.train_dataset[0]
    return found


def schema_of(method: Callable[..., Any]) -> dict[str, Any]:
    found: dict[str, Any] = get_json_schema(method)["function"]
    return found


def test_training_through_it_scores_and_leaves_no_session(spec: WardianSpec, client: BlockingClient, trained: Trained) -> None:
    trainer = trained(spec, speaking(GOOD, WRONG, REFUSED, SLOW), environment_factory=spec.environment_factory, callbacks=[spec.callback])
    before = client.counters()
    trainer.train()
    after = client.counters()
    assert after["sessions_opened"] - before["sessions_opened"] == after["sessions_closed"] - before["sessions_closed"] == 8
    assert after["sessions_open"] == 0
    assert after["steps"] - before["steps"] == 2 * (2 + 2 + 3 + 3)
    logged = [line for line in trainer.state.log_history if "wardian/success" in line]
    assert [line["wardian/success"] for line in logged] == [0.75, 0.75]
    assert [line["tools/call_frequency"] for line in logged] == [1.5, 1.5]


def test_failed_and_truncated_episodes(spec: WardianSpec, client: BlockingClient, trained: Trained) -> None:
    trainer = trained(spec, speaking(GOOD, BREAKS, TOO_SLOW, ENDLESS), environment_factory=spec.environment_factory)
    trainer.max_tool_calling_iterations = 8
    batch = trainer._generate_and_score_completions([dict(trainer.train_dataset[0]) for _ in range(4)])
    outcomes = [environment._outcome for environment in trainer.environments]
    assert [one.failure_kind for one in outcomes] == [None, "infrastructure", "timeout", None]
    assert [one.end_cause for one in outcomes][::3] == ["message", "steps"]
    assert batch["advantages"][1:3].tolist() == [0.0, 0.0]
    assert batch["advantages"][0] > 0 > batch["advantages"][3]
    assert client.counters()["sessions_open"] == 0


def test_nothing_but_reset_and_tools_is_public(spec: WardianSpec) -> None:
    kind = type(spec.environment_factory())
    public = {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}
    assert public == {"reset", "echo", "fail", "slow", "breaks_us"}


def test_what_hints_cannot_say_is_said_in_words(spec: WardianSpec) -> None:
    environment = spec.environment_factory()
    echo = schema_of(environment.echo)
    assert echo["description"] == "Store a text, and give it back."
    assert echo["parameters"]["required"] == ["text"]
    arguments = echo["parameters"]["properties"]
    assert (arguments["times"]["type"], arguments["style"]["nullable"]) == ("integer", True)
    assert arguments["times"]["description"] == "How often the text is given back. integer, at least 1, at most 3. Default: 1."
    assert arguments["style"]["description"] == "object, with {upper (optional): boolean. Default: false} or null."
    assert schema_of(environment.fail)["parameters"]["properties"]["status"]["enum"] == ["not_found", "conflict", "unavailable"]


def test_a_list_of_objects_is_said_in_words() -> None:
    item = {"type": "object", "properties": {"id": {"type": "integer", "minimum": 1}}, "required": ["id"]}
    schema = {"type": "array", "items": item, "maxItems": 3, "description": "What to send."}
    assert described(schema) == "What to send. array, at most 3 entries, each: object, with {id: integer, at least 1}."


@pytest.mark.parametrize("name", ["reset", "get_reward", "_hidden", "two words", "class"])
def test_a_tool_that_is_no_method_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"WardianSpec\.rollout_func, which takes any schema"):
        class_of("World", object, [{"function": {"name": name, "parameters": {}}}], lambda *_: "")


def test_the_factory_pickles_and_connects_where_it_is_used(spec: WardianSpec, client: BlockingClient, row: dict[str, Any]) -> None:
    environment = pickle.loads(pickle.dumps(spec.environment_factory))()
    assert "Echo the word" in environment.reset(**row)
    assert client.counters()["sessions_open"] == 1
    assert environment._finish([{"role": "assistant", "content": "Done."}]).succeeded is False
    assert client.counters()["sessions_open"] == 0
    environment._setting.connection.close()


def test_a_reset_ends_the_lease_before_it(spec: WardianSpec, client: BlockingClient, row: dict[str, Any]) -> None:
    environment = spec.environment_factory()
    environment.reset(**row)
    environment.reset(**row)
    assert client.counters()["sessions_open"] == 1
    environment._close()
    assert client.counters()["sessions_open"] == 0


def test_an_episode_of_which_no_last_words_are_left_is_judged(spec: WardianSpec, row: dict[str, Any]) -> None:
    environment = spec.environment_factory()
    word = environment.reset(**row).split("Echo the word ")[1].split(",")[0]
    assert '"texts"' in environment.echo(text=word)
    outcome = environment._finish([{"role": "assistant", "tool_calls": [{"function": {"name": "echo"}}]}])
    assert (outcome.end_cause, outcome.succeeded) == ("length", True)


def test_after_the_end_a_tool_says_so(spec: WardianSpec, row: dict[str, Any]) -> None:
    environment = spec.environment_factory()
    environment.reset(**row)
    assert environment.breaks_us() == OVER
    assert environment.echo(text="more") == OVER
    assert environment._finish([]).reward is None


def test_an_environment_that_was_not_reset_has_no_reward(spec: WardianSpec) -> None:
    with pytest.raises(ValueError, match="it was not reset"):
        spec.environment_factory()._finish([])
