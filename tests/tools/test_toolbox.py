"""The toolbox without a database: order of the stages, refusals, bugs of authors, keys, events."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import Field

from wardian.sandbox.errors import (
    CellTimeout,
    DatabaseProblem,
    DatabaseProblemKind,
    FileProblem,
    FileProblemKind,
)
from wardian.sandbox.world import World
from wardian.tools.contract import Arguments, CallEvent, Json, Latency, Refusal, Source, Status, Tool, ToolCall, ToolContext, ToolResult
from wardian.tools.errors import ToolBroken, ToolMisdeclared
from wardian.tools.events import EventLog
from wardian.tools.faults import Fault, FaultPlan, FaultProfile
from wardian.tools.toolbox import UNKNOWN, Toolbox


class Pay(Arguments):
    amount: int = Field(ge=1)
    key: str | None = None


async def pay(context: ToolContext, arguments: Pay) -> Json:
    context.world.memory.notes["paid"] = context.world.memory.notes.get("paid", 0) + arguments.amount
    context.note("paid", amount=arguments.amount)
    return {"total": context.world.memory.notes["paid"]}


def tool(name: str = "pay", handler: Any = pay, **more: Any) -> Tool[Pay]:
    return Tool(name=name, description="Pay.", arguments=Pay, handler=handler, **{"source": Source.CELL, "mutates": True, **more})


def world(seed: int = 1) -> World:
    return World(start=datetime(2026, 1, 1, tzinfo=UTC), seed=seed)


def run(
    box: Toolbox, on: World, name: str = "pay", args: dict[str, Json] | str | None = None, step: int = 1
) -> tuple[ToolResult, CallEvent]:
    call = ToolCall(name, {"amount": 5} if args is None else args)
    return asyncio.run(box.call(on, call, agent_id="agent", step=step))


def always(fault: Fault, **more: Any) -> FaultPlan:
    profile = FaultProfile(name="always", **{fault.value: 1.0, "max_total": 1000, "max_consecutive": 1, **more})
    return FaultPlan(profile, revocable_scopes=("pay",))


def test_a_good_call_answers_takes_time_and_is_logged() -> None:
    on = world()
    began = on.clock.now_ms
    result, event = run(Toolbox([tool(latency=Latency(30, 30))]), on)
    assert result.visible() == {"status": "ok", "result": {"total": 5}}
    assert on.clock.now_ms - began == result.latency_ms == event.latency_ms == 30
    assert (event.index, event.at_ms, event.args, event.committed, event.fault) == (0, began, {"amount": 5}, True, None)
    assert event.effects == ({"kind": "paid", "amount": 5},)


def test_an_unknown_tool_is_answered_with_those_that_are() -> None:
    on = world()
    result, event = run(Toolbox([tool("read_file"), tool()]), on, "readfile")
    assert result.message == "There is no tool 'readfile'. Did you mean read_file? Tools: read_file, pay."
    assert (result.status, event.problem, event.committed) == (Status.UNKNOWN_TOOL, "unknown_tool", False)
    assert on.memory.call_counts == {UNKNOWN: 1}
    assert run(Toolbox([tool()]), on, "x\ud800" * 1000)[1].tool.encode()


def test_a_malformed_call_keeps_its_raw_text_and_the_next_call_works() -> None:
    on, box, log = world(), Toolbox([tool()]), EventLog()
    for raw in ('{"amount": 5', '{"amount": 0}', '{"key": "\ud800"}', '{"amount": 5}'):
        log.append(run(box, on, args=raw)[1])
    assert [event.problem for event in log] == ["malformed_json", "out_of_range(amount)", "invalid_unicode(key)", ""]
    assert [event.index for event in log] == [0, 1, 2, 3]
    lines = [json.loads(line) for line in log.dump().splitlines()]
    assert [line["args"] for line in lines[:3]] == ['{"amount": 5', '{"amount": 0}', '{"key": "\ud800"}']


@pytest.mark.parametrize("args", [{"amount": float("nan")}, {"amount": b"x"}, {"amount": {1: 2}}])
def test_arguments_that_are_no_json_are_answered_and_logged(args: dict[str, Json]) -> None:
    result, event = run(Toolbox([tool()]), world(), args=args)
    assert result.status in (Status.MALFORMED_CALL, Status.INVALID_ARGUMENTS)
    assert EventLog([event]).dump()


def test_scopes_are_read_from_the_world_and_revoked_ones_do_not_count() -> None:
    on = world()
    box = Toolbox([tool(scopes=("pay", "see"))], scopes_of=lambda world, agent_id: frozenset({"pay", "see"} if agent_id == "agent" else ()))
    assert run(box, on)[0].status is Status.OK
    on.memory.revoked_scopes.append("see")
    result, event = run(box, on)
    assert result.status is Status.PERMISSION_DENIED
    assert "see" in result.message
    assert "paid" in on.memory.notes
    assert not event.committed
    assert on.memory.notes["paid"] == 5


@pytest.mark.parametrize(
    ("raised", "status"),
    [
        (Refusal(Status.NOT_FOUND, "no such invoice"), Status.NOT_FOUND),
        (Refusal(Status.INVALID_ARGUMENTS, "too much"), Status.INVALID_ARGUMENTS),
        (FileProblem(FileProblemKind.NOT_FOUND, "/x", "no such file"), Status.NOT_FOUND),
        (FileProblem(FileProblemKind.PARENT_NOT_FOUND, "/x/\udcff", "no such directory"), Status.NOT_FOUND),
        (FileProblem(FileProblemKind.PERMISSION_DENIED, "/x", "not yours"), Status.PERMISSION_DENIED),
        (FileProblem(FileProblemKind.IS_DIRECTORY, "/x", "is a directory"), Status.INVALID_ARGUMENTS),
        (DatabaseProblem(DatabaseProblemKind.CONSTRAINT, "taken"), Status.CONFLICT),
        (DatabaseProblem(DatabaseProblemKind.SYNTAX, "near selec"), Status.INVALID_ARGUMENTS),
    ],
)
def test_what_an_agent_can_cause_is_an_outcome(raised: Exception, status: Status) -> None:
    async def refuse(context: ToolContext, arguments: Pay) -> Json:
        context.note("paid")
        raise raised

    result, event = run(Toolbox([tool(handler=refuse)]), world())
    assert (result.status, event.status, event.effects, event.committed) == (status, status, (), False)
    assert result.message.encode()


BUGS = [KeyError("x"), Refusal(Status.UNAVAILABLE, "not declared"), Refusal(Status.NOT_FOUND, "odd", {1}), AssertionError()]


@pytest.mark.parametrize("raised", BUGS)
def test_a_bug_of_a_tools_author_is_named_as_such(raised: Exception) -> None:
    async def broken(context: ToolContext, arguments: Pay) -> Json:
        raise raised

    with pytest.raises(ToolBroken, match=r"tool pay broke on \{'amount': 5\}"):
        run(Toolbox([tool(handler=broken)]), world())


def test_an_answer_that_is_no_json_is_a_bug_of_its_author() -> None:
    async def odd(context: ToolContext, arguments: Pay) -> Json:
        return {"seen": {1, 2}}

    with pytest.raises(ToolBroken, match=r"result.seen: set has no place in JSON"):
        run(Toolbox([tool(handler=odd)]), world())


def test_failures_of_ours_pass_through() -> None:
    async def hung(context: ToolContext, arguments: Pay) -> Json:
        raise CellTimeout("c1", "exec", 2.0)

    with pytest.raises(CellTimeout):
        run(Toolbox([tool(handler=hung)]), world())


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.RATE_LIMITED, Fault.TIMEOUT_BEFORE])
def test_a_fault_before_means_that_nothing_ran_and_a_retry_works(fault: Fault) -> None:
    on, box = world(), Toolbox([tool()], always(fault))
    result, event = run(box, on)
    assert (event.fault, event.committed, event.effects) == (fault.value, False, ())
    assert result.status.value == fault.value.removesuffix("_before")
    assert "paid" not in on.memory.notes
    assert run(box, on)[0].status is Status.OK


def test_both_timeouts_tell_the_agent_the_same_and_the_log_the_truth() -> None:
    before, after = world(), world()
    lost, lost_event = run(Toolbox([tool()], always(Fault.TIMEOUT_BEFORE)), before)
    kept, kept_event = run(Toolbox([tool()], always(Fault.TIMEOUT_AFTER)), after)
    assert lost.visible() == kept.visible()
    assert lost.latency_ms == kept.latency_ms == 10_000
    assert (lost_event.committed, kept_event.committed) == (False, True)
    assert ("paid" in before.memory.notes, after.memory.notes["paid"]) == (False, 5)
    assert kept_event.effects == ({"kind": "paid", "amount": 5},)


def test_a_slow_call_over_its_limit_times_out_with_its_effect_kept() -> None:
    on = world()
    result, event = run(Toolbox([tool(latency=Latency(500, 500), timeout_ms=2000)], always(Fault.SLOW)), on)
    assert (result.status, result.latency_ms, event.fault, event.committed) == (Status.TIMEOUT, 2000, "slow", True)
    assert on.memory.notes["paid"] == 5


def test_a_declared_latency_over_the_limit_times_out_without_a_fault() -> None:
    result, event = run(Toolbox([tool(latency=Latency(3000, 3000), timeout_ms=2000)]), world())
    assert (result.status, event.fault) == (Status.TIMEOUT, None)


def test_a_scope_revoked_midway_stays_away() -> None:
    on = world()
    box = Toolbox([tool(scopes=("pay",))], always(Fault.REVOKED), scopes_of=lambda world, agent_id: frozenset({"pay"}))
    first, event = run(box, on)
    assert (first.status, event.fault, on.memory.revoked_scopes) == (Status.PERMISSION_DENIED, "revoked", ["pay"])
    second, later = run(box, on)
    assert (second.status, later.fault) == (Status.PERMISSION_DENIED, None)


def test_a_scope_that_is_not_held_cannot_be_revoked() -> None:
    on = world()
    result, event = run(Toolbox([tool(scopes=("pay",))], always(Fault.REVOKED)), on)
    assert (result.status, event.fault, on.memory.revoked_scopes) == (Status.PERMISSION_DENIED, None, [])


def test_a_drawn_fault_that_could_not_land_is_not_in_the_log() -> None:
    late = tool(mutates=False, source=Source.CELL, latency=Latency(3000, 3000), timeout_ms=2000)
    for fault in (Fault.TIMEOUT_AFTER, Fault.STALE, Fault.EMPTY, Fault.REVOKED):
        assert run(Toolbox([late], always(fault)), world())[1].fault is None


def test_a_note_that_is_no_json_is_a_bug_of_its_author() -> None:
    async def odd(context: ToolContext, arguments: Pay) -> Json:
        context.note("seen", at=datetime(2026, 1, 1, tzinfo=None))

    with pytest.raises(ToolBroken, match="without time zone"):
        run(Toolbox([tool(handler=odd)]), world())


def test_an_idempotency_key_does_a_thing_once() -> None:
    on, box = world(), Toolbox([tool(idempotency_key="key")], always(Fault.TIMEOUT_AFTER))
    args = {"amount": 5, "key": "k1"}
    assert run(box, on, args=args)[0].status is Status.TIMEOUT
    result, event = run(box, on, args=args)
    assert (result.content, event.effects, on.memory.notes["paid"]) == ({"total": 5}, (), 5)
    assert run(box, on, args={"amount": 6, "key": "k1"})[0].status is Status.CONFLICT


def test_the_fault_free_twin_differs_in_nothing_but_the_faults() -> None:
    twin, faulted = world(), world()
    plain, harsh = Toolbox([tool()]), Toolbox([tool()], always(Fault.UNAVAILABLE))
    for _ in range(5):
        run(plain, twin)
        run(harsh, faulted)
    assert twin.streams.digest() == faulted.streams.digest()
    assert twin.memory.notes != faulted.memory.notes


def test_declarations_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(ToolMisdeclared, match="two tools are named"):
        Toolbox([tool(), tool()])
    contradictions: tuple[dict[str, Any], ...] = (
        {"name": "Pay"},
        {"source": Source.REPLICA},
        {"empty_page": []},
        {"idempotency_key": "other"},
        {"timeout_ms": 0},
    )
    for bad in contradictions:
        with pytest.raises(ToolMisdeclared):
            tool(**bad)


def test_the_log_answers_for_steps_and_effects() -> None:
    on, box, log = world(), Toolbox([tool()]), EventLog()
    for step in (1, 2, 2):
        log.append(run(box, on, step=step)[1])
    assert len(log.since(2)) == 2
    assert log.effects("paid") == ({"kind": "paid", "amount": 5},) * 3
    assert EventLog(tuple(log))[-1] == log[2]
