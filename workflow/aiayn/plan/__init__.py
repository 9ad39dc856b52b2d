"""What a config takes, before anything is spent."""
