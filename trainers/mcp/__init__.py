"""An episode as a tool server that speaks the Model Context Protocol. Needs the extra `mcp`.

handle   what stands behind such a server: one episode
server   tools, task and policy of an episode, as the protocol has them
app      episodes over streamable HTTP, by session and token
local    an episode of an environment of this process, with its trajectory
stdio    one episode over stdin and stdout
"""
