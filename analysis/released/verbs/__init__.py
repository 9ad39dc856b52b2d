"""The verbs (subcommands of `aiayn`) of the wing `released`, an optional package."""
