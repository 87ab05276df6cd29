"""The red team: failures that look like success, and mutants of solved states, against the verifiers of a world."""
