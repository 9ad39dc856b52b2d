"""The verbs (subcommands of `aiayn`) of the wing `price`, an optional package."""
