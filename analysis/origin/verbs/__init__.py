"""The verbs (subcommands of `aiayn`) of the wing `origin`, an optional package."""
