"""How a training is brought to its end: its driver, the launchers, its job; submitit is imported here alone."""
