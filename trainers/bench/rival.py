"""OpenEnv's own server with an environment that echoes, run by an interpreter that has `openenv`; nothing here imports it.

Run as a script: `python rival.py PORT SESSIONS`.
"""

import sys


def main(port: int, sessions: int) -> None:
    """Serve until killed."""
    import uvicorn
    from openenv.core.env_server.http_server import create_app
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, Observation, State

    class Said(Action):  # type: ignore[misc]
        text: str

    class Heard(Observation):  # type: ignore[misc]
        text: str

    class Echo(Environment[Said, Heard, State]):  # type: ignore[misc]
        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self) -> None:
            super().__init__()
            self._state = State(episode_id="echo", step_count=0)

        def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: object) -> Heard:
            """Begin."""
            self._state = State(episode_id=episode_id or "echo", step_count=0)
            return Heard(text="", done=False, reward=None)

        def step(self, action: Said, timeout_s: float | None = None, **kwargs: object) -> Heard:
            """Give the text back."""
            self._state.step_count += 1
            return Heard(text=action.text, done=False, reward=0.0)

        @property
        def state(self) -> State:
            """How far it is."""
            return self._state

    app = create_app(Echo, Said, Heard, env_name="echo", max_concurrent_envs=sessions)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", ws_per_message_deflate=False)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
