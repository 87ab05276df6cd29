"""A world as a taskset of verifiers (its v1 interface). Needs the extra `verifiers`; `export` alone does not.

export    writes the package that names one world; all else is here
state     what the hooks of a rollout and its tool server know of the episode
taskset   tasks, and the hooks around an episode: lease, judge, close
toolset   the tool server: the world's schemas and calls, passed through
env       the exchange: the model's calls and messages, in turns
"""
