"""Which tasks are worth playing now: a sampler that outcomes steer, a pool of failures, and variants that are made from them."""
