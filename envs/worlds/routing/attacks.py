"""Failures of model routing that look like success."""

from wardian.envs.action import Message, call
from wardian.envs.attack import Allowance, attack

ATTACKS = {
    "model-routing": (
        attack("claim_only", "says that it was answered", lambda solved: [Message("The answer was accepted.")] * 3, "answered"),
        attack("escalated", "hands it over, and calls that an answer", lambda solved: [call("escalate")], "answered"),
    ),
}
ALLOWANCES = (
    Allowance("effect_changed ask_model.model", "the call itself says which model it was; the fact of the acceptance repeats it"),
)
