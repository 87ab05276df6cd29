"""The server that leases episodes: OpenEnv's wire protocol, leases over HTTP, and a tool server for each episode. Needs the extra `serve`.

options     what a server is started with
problems    what is answered where something cannot be done
wire        what frames and bodies hold, as models
replies     what is said of a reset and of a step
worlds      a world that is served: its ground, its tasks
session     one lease: one episode at a time, one call at a time
sessions    all leases: capacity, the sweeper, groups, forks
shelf       snapshots that are kept for callers
calls       what can be asked of a lease
log         trajectories of what is played
counters    what happened, for Prometheus and as JSON
access      who may ask, how much, and how often
frames      WebSocket
rpc         JSON-RPC under /mcp
leases      leases over HTTP
episodes    a lease's episode as a tool server
catalog     tasks, schemas, health
app         all of it as one application
connections bounds of those that bring no request
watchdog    signals, and the end of a process that a tool keeps from it
running     the process: address, signals, drain
"""
