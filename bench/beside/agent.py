"""The other side of a contestant in an interpreter of its own: requests on stdin, answers on stdout, a JSON object a line each.

`open`, `run`, `reset`, `true` and `close` are methods of what is served; times are taken here, so that the way to and fro costs nobody
anything. The end of stdin ends it, and with it all that it made. Stands beside the agent that imports it, with the standard library alone.
"""

import json
import os
import sys
import time
import traceback


def serve(served):
    """Answer until `close` or the end of input; an error is an answer with `error`."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a package prints is no answer
    try:
        for line in sys.stdin:
            request = json.loads(line)
            operation = request.pop("op")
            try:
                answer = getattr(served, operation)(**request) or {}
            except Exception as error:  # noqa: BLE001 - the edge of this process: the other side says whose it was
                answer = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
            if operation == "close":
                return
    finally:
        served.close()


def timed(act):
    """Milliseconds that `act` takes."""
    began = time.perf_counter()
    act()
    return {"ms": (time.perf_counter() - began) * 1e3}
