"""The verbs (subcommands of `aiayn`) of the wing `doctor`, an optional package."""
