"""Obsolete pages of the manual: each contradicts the one in force, and the manual says that none of them counts."""

from random import Random

FOLDER = "/workspace/policies"

PAGES = {
    "2024-goodwill.md": (
        "# Goodwill\n\nIn force from 2024-03-01.\n\nRefunds of up to 1000 cents need no evidence. Larger ones: half of what is asked, "
        "with the reason `goodwill`.\n"
    ),
    "2024-double-charges.md": (
        "# Double charges\n\nIn force from 2024-06-01.\n\nTwo payments of one invoice: refund the earlier one in full, whatever the "
        "gateway says. Reversals are the gateway's business.\n"
    ),
    "2025-proration.md": (
        "# Proration\n\nIn force from 2025-01-01.\n\nA month has 30 days. The day of the change costs the old price. Round down.\n"
    ),
    "2025-cancellations.md": (
        "# Cancellations\n\nIn force from 2025-01-01.\n\nThe day on which the customer *requested* the cancellation counts. A month that "
        "had begun is not refunded.\n"
    ),
    "2025-wrong-plans.md": (
        "# Wrong plans\n\nIn force from 2025-04-01.\n\nThe plan that was *offered* is the plan that was ordered. Refund the whole price "
        "where the two differ.\n"
    ),
    "2025-limits.md": (
        "# Limits\n\nIn force from 2025-09-01.\n\nAgents refund up to 5000 cents. What is above goes to `engineering` in parts. "
        "The window for refunds is 30 days. Angry customers go to `legal`.\n"
    ),
    "manual-2025-chapter-3.md": (
        "# Support desk: policy manual, chapter 3\n\nEdition of 2025.\n\n3.1 Close the ticket first, then reply. 3.2 Every refund is "
        "doubled by a credit of the same amount (`apply_credit`). 3.3 Unclear cases: `open_dispute`.\n"
    ),
    "manual-2025-chapter-6.md": (
        "# Support desk: policy manual, chapter 6\n\nEdition of 2025.\n\n6.1 Differences of up to 100 cents are rounding. 6.2 Fees "
        "are booked as payments. 6.3 Imported rows are never void.\n"
    ),
}


def old_pages(rng: Random, count: int) -> dict[str, str]:
    """So many of them, as text by path."""
    return {f"{FOLDER}/{name}": PAGES[name] for name in sorted(rng.sample(sorted(PAGES), count))}
