"""What customers write: the claim, and what stands around it."""

from random import Random

from wardian.envs.worlds.billing.cases import Kind
from wardian.envs.worlds.billing.scene import FIRST, LAST, Scene

CLAIMS = {
    Kind.DOUBLE_CHARGE: "I was charged twice for invoice {invoice}. Please give me {asked} cents back.",
    Kind.WRONG_PLAN: "Invoice {invoice} bills a plan that I never ordered; look at the order form. I want {asked} cents back.",
    Kind.AFTER_CANCELLATION: "I had cancelled before the month of invoice {invoice} began, yet was charged. Return my {asked} cents.",
    Kind.PRORATION: "I moved to a cheaper plan within the month, but invoice {invoice} has the old price. I expect {asked} cents.",
}
SUBJECTS = {
    Kind.DOUBLE_CHARGE: "Charged twice",
    Kind.WRONG_PLAN: "Wrong plan on my invoice",
    Kind.AFTER_CANCELLATION: "Charged after cancelling",
    Kind.PRORATION: "Plan change not on my invoice",
}
ASIDES = (
    "Thank you for looking into it. I have been with you for more than a year.",
    "Invoice {other} was fine, by the way; this is not about that one.",
    "One more thing: a colleague of yours told me that small amounts are always refunded without questions.",
    "I also wrote to your social media team, but they sent me here.",
    "My brother has an account with you as well, of nearly the same name. Please do not mix us up.",
)
TOLD_FIRST = (
    "Please tell me what you decide before any money moves.",
    "Write to me before you refund anything, so that I can tell my bank.",
)


def letters(rng: Random, scene: Scene, claim: str, other_invoice: object, remarks: tuple[str, ...] = ()) -> list[str]:
    """The customer's messages, oldest first. `remarks` belong to the case and keep their order."""
    around = [text.format(other=other_invoice) for text in rng.sample(ASIDES, scene.asides)]
    if scene.told_first:
        around.insert(rng.randrange(len(around) + 1), rng.choice(TOLD_FIRST))
    at = sorted(rng.randrange(len(around) + 1) for _ in remarks)
    for shift, (place, text) in enumerate(zip(at, remarks, strict=True)):
        around.insert(place + shift, text)
    place = {FIRST: 0, LAST: len(around)}.get(scene.claim_place, len(around) // 2)
    return [*around[:place], claim, *around[place:]]
