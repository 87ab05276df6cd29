"""Who acts: scripted policies by name, and the protocol for any other."""
