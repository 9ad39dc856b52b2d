"""The verbs (subcommands of `aiayn`) of the wing `reported`, an optional package."""
