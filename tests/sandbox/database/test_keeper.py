"""When the background work of a template begins: never beside a reset, never much later."""

from functools import partial

from wardian.sandbox.database.postgres.keeper import BACKLOG, PATIENCE_S, REST_S, RETRY_S, Keeper
from wardian.sandbox.errors import DatabaseLost

NOTHING = -1e-9
"""Of two times that are computed in different ways."""


def nothing() -> None:
    """A chore."""


def waits(keeper: Keeper[object], now: float) -> float:
    found = keeper._wait_s(now)
    assert found is not None
    return found


def test_a_drop_waits_until_the_process_behind_its_connection_has_ended() -> None:
    keeper: Keeper[object] = Keeper(0, object)
    assert keeper._wait_s(0) is None
    keeper.later(nothing)
    due = keeper._chores[0][0]
    assert waits(keeper, due - REST_S) > REST_S + NOTHING
    assert waits(keeper, due) == 0


def test_work_waits_while_somebody_asks_for_a_clone_and_begins_in_the_end() -> None:
    keeper: Keeper[object] = Keeper(1, object)
    with keeper.asked():
        assert waits(keeper, 5.0) > PATIENCE_S + NOTHING
        assert waits(keeper, 5.0 + REST_S) > PATIENCE_S - REST_S + NOTHING
        assert waits(keeper, 5.1 + PATIENCE_S) == 0


def test_spares_come_first_until_too_many_chores_wait() -> None:
    keeper: Keeper[object] = Keeper(1, object)
    for number in range(BACKLOG + 1):
        assert keeper._makes(0) == (number <= BACKLOG)
        keeper.later(nothing)
    assert not keeper._makes(0)


def test_connections_end_before_anything_else_is_begun_and_never_beside_a_reset() -> None:
    keeper: Keeper[object] = Keeper(1, object)
    done: list[str] = []
    keeper.later(nothing)
    keeper.end(partial(done.append, "ended"))
    assert not keeper.settled
    assert waits(keeper, keeper._touched) > REST_S + NOTHING
    keeper._next(keeper._touched + REST_S)()
    assert done == ["ended"]
    assert keeper._next(keeper._touched + REST_S) == keeper._add


def test_who_needs_a_connection_ends_those_that_wait_for_it() -> None:
    keeper: Keeper[object] = Keeper(0, object)
    done: list[int] = []
    for number in range(3):
        keeper.end(partial(done.append, number))
    keeper.hurry()
    assert done == [0, 1, 2]
    assert keeper.settled


def test_after_the_end_connections_end_at_once() -> None:
    keeper: Keeper[object] = Keeper(0, object)
    done: list[str] = []
    keeper.start()
    keeper.end(partial(done.append, "before"))
    keeper.close()
    keeper.end(partial(done.append, "after"))
    assert done == ["before", "after"]


def test_who_asks_faster_than_drops_go_does_one() -> None:
    keeper: Keeper[object] = Keeper(0, object)
    done: list[int] = []
    for number in range(2 * BACKLOG + 1):
        keeper.later(partial(done.append, number))
    for _ in range(2):
        with keeper.asked():
            pass
    assert done == [0]


def test_a_spare_that_cannot_be_made_is_tried_again_later_and_drops_go_on_meanwhile() -> None:
    def fails() -> object:
        raise DatabaseLost("no connection is free")

    keeper = Keeper(1, fails)
    keeper._add()
    failed = keeper._retry_at - RETRY_S
    assert waits(keeper, failed) > RETRY_S + NOTHING
    keeper.later(nothing)
    assert waits(keeper, failed) < RETRY_S
    assert keeper._makes(failed + RETRY_S)


def test_the_end_runs_every_chore_and_gives_the_spares_back() -> None:
    keeper: Keeper[object] = Keeper(0, object)
    done: list[int] = []
    for number in range(3):
        keeper.later(partial(done.append, number))
    assert not keeper.settled
    keeper.start()
    assert keeper.close() == []
    assert done == [0, 1, 2]
    assert keeper.settled
