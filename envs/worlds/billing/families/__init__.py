"""Families of the support desk, one module each."""

from wardian.envs.worlds.billing.families.dispute import BillingDispute
from wardian.envs.worlds.billing.families.escalation import PolicyEscalation
from wardian.envs.worlds.billing.families.recovery import ErrorRecovery

FAMILIES = (BillingDispute(), ErrorRecovery(), PolicyEscalation())

__all__ = ["FAMILIES", "BillingDispute", "ErrorRecovery", "PolicyEscalation"]
