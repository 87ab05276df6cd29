"""Mutation testing of verifiers: the solved end of tasks, with one thing otherwise at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from wardian.envs.environment import ToolEnvironment
from wardian.envs.family import Family
from wardian.envs.task import TaskId
from wardian.envs.verifier import FinalState
from wardian.rollouts.redteam import files, log
from wardian.rollouts.redteam.mutants import Mutant, Score, judge
from wardian.rollouts.redteam.rows import Edit, Rows, tables_of
from wardian.rollouts.redteam.solving import Unsolved, Witness, solve
from wardian.sandbox.streams import stream

SEEDS = (1, 2)
MOST = 400
"""Mutants of one task; of more, so many are drawn."""


async def mutate(
    env: ToolEnvironment, witness: Witness, families: Sequence[Family], seeds: Sequence[int] = SEEDS, most: int = MOST
) -> list[Score]:
    """Score the verifiers of `families`, on tasks of every difficulty with these seeds, at most `most` mutants of each.

    The environment's world must be watched by `witness`, its settings must hold ended episodes, and it must have no faults. `families` are
    those of the world that is not watched.
    Tasks that the reference does not solve are left out, and named in the score.
    """
    scores = []
    for family in families:
        score = Score(family.name)
        for task_id in (str(TaskId(family.name, difficulty, seed)) for difficulty in family.difficulties for seed in seeds):
            try:
                await solve(env, task_id)
            except Unsolved:
                score.unsolved.append(task_id)
                continue
            assert witness.state is not None, "the reference was judged"
            specimen = Specimen(env, witness.state)
            score.judged += [judge(mutant, family.verify, env.world.allowances) for mutant in specimen.mutants(most)]
            score.impossible += specimen.impossible
            score.tasks.append(task_id)
        scores.append(score)
    return scores


class Specimen:
    """The solved end of one episode, held by its environment."""

    def __init__(self, env: ToolEnvironment, state: FinalState) -> None:
        self._state = state
        self._rng = stream(0, f"mutants/{state.task.id}")
        self._live = env.live.database
        self._rows = Rows(self._live, tables_of(env.world), state, self._rng) if self._live is not None else None
        self._acting = [tool.name for tool in env.world.tools if tool.mutates]
        self._given = {**env.world.files.entries, **state.task.files.entries}
        self.impossible = 0
        """Mutants that the database refused."""

    def mutants(self, most: int) -> Iterator[Mutant]:
        """At most so many, drawn evenly; the state of each is good until the next is asked for."""
        edits = list(self._rows.edits()) if self._rows is not None else []
        rest = [*log.mutants(self._state, self._acting), *files.mutants(self._state, self._given, self._rng)]
        total = len(edits) + len(rest)
        for number in sorted(self._rng.sample(range(total), min(most, total))):
            yield from self._edited(edits[number]) if number < len(edits) else self._as_it_is(rest[number - len(edits)])

    def _edited(self, edit: Edit) -> Iterator[Mutant]:
        assert self._rows is not None, "only a database has rows to edit"
        with self._rows.edited(edit) as state:
            if state is None:
                self.impossible += 1
            else:
                yield Mutant(edit.name, edit.detail, state)

    def _as_it_is(self, mutant: Mutant) -> Iterator[Mutant]:
        """With the database as the reference left it."""
        if self._live is None:
            yield mutant
            return
        frozen = self._live.freeze()
        try:
            yield replace(mutant, state=replace(mutant.state, database=frozen))
        finally:
            frozen.close()
