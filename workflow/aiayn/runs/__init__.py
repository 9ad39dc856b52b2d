"""What is known of runs: their attempts, jobs and state; following one, ending one, finding one by its name."""
