"""TRL (extra `trl`): worlds of a server as what `GRPOTrainer` takes. See docs/trainers/trl.md.

spec         `WardianSpec`, checked before the first step
prompts      rows of the data set, and how a conversation begins
rollout      the concurrent `rollout_func`
generation   one turn of many episodes at once, by the trainer's model
encoding     messages to token ids, with nothing in them that acts as a turn
environment  TRL's `environment_factory`
methods      tools' schemas as Python methods
outcome      what an episode came to
reward       the reward function
staleness    a filter by the age of the weights
"""

try:
    from wardian.trainers.trl.outcome import Outcome
    from wardian.trainers.trl.spec import WardianSpec
    from wardian.trainers.trl.staleness import fresh_episodes, fresh_rows
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"{error}; `pip install 'wardian[trl]'` brings what this needs", name=error.name) from error

__all__ = ["Outcome", "WardianSpec", "fresh_episodes", "fresh_rows"]
