"""Families of the support desk, one module each."""

from wardian.envs.worlds.billing.families.dispute import BillingDispute
from wardian.envs.worlds.billing.families.escalation import PolicyEscalation
from wardian.envs.worlds.billing.families.fraud import ChargebackFraud
from wardian.envs.worlds.billing.families.recovery import ErrorRecovery
from wardian.envs.worlds.billing.families.statement import StatementReconciliation

FAMILIES = (BillingDispute(), ErrorRecovery(), PolicyEscalation(), StatementReconciliation(), ChargebackFraud())

__all__ = ["FAMILIES", "BillingDispute", "ChargebackFraud", "ErrorRecovery", "PolicyEscalation", "StatementReconciliation"]
