"""Runs a verifier so that nothing it does can become a reward: it may be wrong about a task, but not raise, hang or write."""

import ctypes
import threading
from contextlib import suppress
from dataclasses import dataclass, field

import anyio
import anyio.from_thread
from anyio.lowlevel import EventLoopToken, current_token

from wardian.envs.errors import TaskError, VerifierBroken
from wardian.envs.family import Family
from wardian.envs.verifier import FinalState, Verdict
from wardian.sandbox.fingerprint import Fingerprint


async def judge(family: Family, state: FinalState, expected: Fingerprint | None, deadline_s: float) -> Verdict:
    """Let `family` verify `state` in a thread of its own, for at most `deadline_s` seconds.

    `expected` is what the frozen database must still have as its fingerprint when the verifier is done; it is closed then.

    Raises:
        VerifierBroken: it raised, took longer, gave something that is no verdict, or changed what it was shown.
    """
    trial = _Trial(family, state, current_token())
    thread = threading.Thread(target=trial.run, name=f"verify {family.name}", daemon=True)
    thread.start()
    try:
        with anyio.move_on_after(deadline_s):
            await trial.done.wait()
    finally:
        if not trial.finished:
            _interrupt(thread)
    if not trial.finished:
        raise VerifierBroken(family.name, f"it did not finish within {deadline_s:g} s")
    if trial.error is not None:
        kind = "" if isinstance(trial.error, TaskError) else f"{type(trial.error).__name__}: "
        raise VerifierBroken(family.name, f"{kind}{trial.error}") from trial.error
    if not isinstance(trial.verdict, Verdict):
        raise VerifierBroken(family.name, f"it returned {type(trial.verdict).__name__} and no Verdict")
    written = trial.after.differences(expected) if trial.after and expected else ()
    if written:
        raise VerifierBroken(family.name, "it wrote to the database: " + "; ".join(written[:5]))
    return trial.verdict


class _Stopped(BaseException):
    """Ends a verifier's thread; not an Exception, so that no verifier swallows it by chance."""


@dataclass(slots=True)
class _Trial:
    family: Family
    state: FinalState
    token: EventLoopToken
    done: anyio.Event = field(default_factory=anyio.Event)
    verdict: object = None
    after: Fingerprint | None = None
    error: BaseException | None = None
    finished: bool = False

    def run(self) -> None:
        """Verify, and tell the waiting event loop, unless it is gone or gave up on us."""
        with suppress(_Stopped, anyio.RunFinishedError):
            try:
                self._verify()
            finally:
                # Here and not where it was frozen: a verifier that hangs is still reading it when everybody else has left.
                if self.state.database is not None:
                    self.state.database.close()
            anyio.from_thread.run_sync(self.done.set, token=self.token)

    def _verify(self) -> None:
        try:
            self.verdict = self.family.verify(self.state)
            self.after = self.state.database.fingerprint() if self.state.database else None
        except _Stopped:
            raise
        except BaseException as error:  # noqa: BLE001 - the edge of a thread: whatever escapes is the verifier's fault
            self.error = error
        self.finished = True


def _interrupt(thread: threading.Thread) -> None:
    """Ask a thread to end at its next Python instruction, so that a hung verifier does not go on to burn a core."""
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_Stopped))
