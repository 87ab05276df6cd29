"""NitroBox, in the interpreter and the root that it needs: `python3 nitrobox_agent.py IMAGE shared|own`."""

import fcntl
import logging
import socket
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

from agent import serve, timed
from nitrobox import Sandbox, SandboxConfig
from nitrobox.rootfs import _image_store_populate

LIMIT_S = 60
MOST_AT_ONCE = 16


def loopback():
    """The network of this root is its own, and what it holds is this interface."""
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh22x", b"lo", 0x49))  # SIOCSIFFLAGS: up, loopback, running


class Boxes:
    def __init__(self, image, network):
        self.image, self.own = image, network == "own"
        self.boxes = []
        self.threads = ThreadPoolExecutor(MOST_AT_ONCE)  # for good: a box ends with the thread that has started it

    def open(self, places):
        # A folder is asked for in every image store first, up to a registry, which takes half a minute where there is none.
        _image_store_populate(self.image, {"env": {}, "working_dir": "/workspace"})
        self.boxes = [self._made(number) for number in range(places)]
        return {"version": version("nitrobox"), "python": sys.version.split()[0], "features": self.boxes[0].features}

    def _made(self, number):
        config = SandboxConfig(
            image=self.image, working_dir="/workspace", hostname="world", net_isolate=self.own, env_base_dir="/tmp/boxes", shm_size="16m"
        )
        return Sandbox(config, name=f"box-{number}")

    def run(self, jobs):
        """Scripts by place, each place's one after another, all places at once."""
        return {"outputs": list(self.threads.map(self._run, *zip(*jobs, strict=True)))}

    def _run(self, place, scripts):
        return [self.boxes[place].run(script, timeout=LIMIT_S)[0] for script in scripts][-1]

    def reset(self, places):
        return timed(lambda: list(self.threads.map(self._reset, places)))

    def _reset(self, place):
        self.boxes[place].reset()

    def true(self, place):
        return timed(lambda: self.boxes[place].run("true"))

    def close(self):
        for box in self.boxes:
            box.delete()
        self.boxes = []


if __name__ == "__main__":
    logging.disable()
    loopback()
    serve(Boxes(*sys.argv[1:]))
