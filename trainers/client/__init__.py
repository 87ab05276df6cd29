"""The client of a Wardian server: `wardian.connect`. Part of the base install; no trainer is imported, and none is in its way.

connecting  `connect`
errors      what can go wrong
turns       what a reset and a step give
link        requests, and one socket for each lease
client      the client and its leases, for `await`
blocking    the same without
"""

from wardian.trainers.client.blocking import BlockingClient, BlockingSession
from wardian.trainers.client.client import Client, Session
from wardian.trainers.client.connecting import Connecting, connect
from wardian.trainers.client.errors import (
    CapacityReached,
    NotAuthorized,
    Refused,
    ResetFailed,
    ServerError,
    SessionBusy,
    SessionLost,
    Unreachable,
)
from wardian.trainers.client.turns import Turn

__all__ = [
    "BlockingClient",
    "BlockingSession",
    "CapacityReached",
    "Client",
    "Connecting",
    "NotAuthorized",
    "Refused",
    "ResetFailed",
    "ServerError",
    "Session",
    "SessionBusy",
    "SessionLost",
    "Turn",
    "Unreachable",
    "connect",
]
