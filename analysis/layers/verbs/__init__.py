"""The verbs (subcommands of `aiayn`) of the wing `layers`, an optional package."""
