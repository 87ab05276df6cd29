"""`wardian serve --db postgres`: what a lease can do, on a server that was there before."""

import httpx2

import wardian

from .serving import FAULTY, served

TASK = "echoes/easy/seed-1"


def test_episodes_snapshots_and_forks_on_postgres(postgres_url: str) -> None:
    with served(FAULTY, "--db", "postgres", "--db-url", postgres_url, "--drain-s", "1") as url, wardian.connect(url) as client:
        with client.session() as session:
            word = session.reset(TASK).results[0]["result"]["instruction"].split()[3].strip(",")
            key = session.snapshot()
            session.call("echo", {"text": "wrong"})
            assert session.restore(key).step == 0
            session.call("echo", {"text": word})
            (fork,) = session.fork(1)
            session.call("echo", {"text": "too much"})
            ends = [one.say("Done.").succeeded for one in (session, fork)]
            fork.close()
        assert ends == [False, True]
        assert httpx2.get(f"{url}/counters").json()["failed"] == {}
