"""The verbs (subcommands of `aiayn`) of the wing `figures`, an optional package."""
