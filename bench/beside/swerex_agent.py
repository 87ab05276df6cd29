"""SWE-ReX with its Docker deployment, in an interpreter that has it: `python3 swerex_agent.py IMAGE DOCKER-ARGUMENT...`."""

import asyncio
import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

from agent import serve, timed
from swerex.deployment.docker import DockerDeployment
from swerex.runtime.abstract import BashAction, Command, CreateBashSessionRequest

LIMIT_S = 60


class Place:
    """One deployment after another, each place in an event loop of its own: to wait for a server blocks the loop."""

    def __init__(self, image, arguments):
        self.image, self.arguments = image, arguments
        self.deployment = None
        self.loop = asyncio.new_event_loop()

    async def start(self):
        self.deployment = DockerDeployment(image=self.image, pull="never", docker_args=self.arguments, logger=logging.getLogger("silent"))
        await self.deployment.start()
        await self.deployment.runtime.create_session(CreateBashSessionRequest(startup_timeout=10))

    async def stop(self):
        """A server that the episode has ended cannot be told to close, and `stop` gives up on it."""
        if self.deployment is None:
            return
        deployment, self.deployment = self.deployment, None
        name = deployment.container_name
        try:
            await deployment.stop()
        except Exception:  # noqa: BLE001 - the request's, of whatever library it went through
            subprocess.run(["docker", "rm", "--force", name], capture_output=True, check=False)  # noqa: ASYNC221 - nothing else is in this loop

    async def run(self, scripts):
        output = ""
        for script in scripts:
            try:
                response = await self.deployment.runtime.execute(Command(command=["bash", "-c", script], timeout=LIMIT_S))
                output = response.stdout
            except Exception as error:  # noqa: BLE001 - an episode may end the server that runs its commands
                output = str(error)
        return output

    async def reset(self):
        await self.stop()
        await self.start()


class Deployments:
    def __init__(self, image, *arguments):
        self.image, self.arguments = image, list(arguments)
        self.places = []

    def open(self, places):
        self.places = [Place(self.image, self.arguments) for _ in range(places)]
        self._all([(place, place.start()) for place in self.places])
        return {"version": version("swe-rex"), "python": sys.version.split()[0]}

    def run(self, jobs):
        return {"outputs": self._all([(self.places[place], self.places[place].run(scripts)) for place, scripts in jobs])}

    def reset(self, places):
        return timed(lambda: self._all([(self.places[place], self.places[place].reset()) for place in places]))

    def true(self, place):
        chosen = self.places[place]
        return timed(lambda: chosen.loop.run_until_complete(chosen.deployment.runtime.run_in_session(BashAction(command="true"))))

    def close(self):
        if self.places:
            self._all([(place, place.stop()) for place in self.places])
        self.places = []

    def _all(self, acts):
        """Each act in the loop of its place, all at once."""
        with ThreadPoolExecutor(len(acts)) as threads:
            return list(threads.map(lambda act: act[0].loop.run_until_complete(act[1]), acts))


if __name__ == "__main__":
    logging.disable()
    serve(Deployments(*sys.argv[1:]))
