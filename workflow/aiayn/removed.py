"""Lists what earlier versions had: each removed verb, flag and config key, with the sentence that
names a replacement.

A row's name is what a user writes: `VERB`, `VERB --flag`, `VERB --flag value`, or `KEY:` for a key
of a config file.
"""

from collections.abc import Iterable

# One row a line, in alphabetical order.
# fmt: off
REMOVED = {
    "attention --format": "SVG, for dark and light pages, and PDF are always written; omit it",
    "attention --target": "the decoder reads the model's own translation; omit it",
    "compare": "`sacrebleu REFERENCES -i BASELINE SYSTEM --paired-bs`; docs/tables.md says how to read it",  # noqa: E501
    "describe": "`aiayn plan --system NAME` prints size, cost and the fairseq-train command",
    "doctor --command": "`aiayn doctor FOLDER` and `aiayn tables --from-logs` read the same arguments from a log",  # noqa: E501
    "evaluate --detokenise": "`sacremoses -l de detokenize` does it to the file of --output",
    "evaluate --force": "`--no-warning` scores the lines as they are",
    "explain --sd-df": "`--mean M --sd S --num-seeds N` judges a published mean; else omit it",
    "evaluate --repair": "the error without it has the command that undoes the form; omit it",
    "export --format ctranslate2": "`--format safetensors` exports every system",
    "export --length-penalty-form": "config.json names the system's own search; omit it",
    "export --stop": "config.json names the system's own search; omit it",
    "has_claims:": "set has_layer_timing, which times the layers of Table 1; the statements are in docs/claims.md",  # noqa: E501
    "logs --tail": "`aiayn logs RUN --lines N` prints the last N lines",
    "measure --device": "layers are always timed on one thread of the CPU; omit it",
    "measure --seed": "layers are always timed on the same random vectors; omit it",
    "normalise:": "text is not normalised before it is tokenised; omit it",
    "pack --check": "make its tables again by `aiayn tables --from-logs FOLDER`, and compare them byte for byte",  # noqa: E501
    "pack --model": "`aiayn export RUN --output <pack>/models/<run>`, then pack again",
    "plan --benchmarks": "stages before training are no longer planned; omit it",
    "plan --dollars-per-gpu-hour": "write your price into workflow/config/hardware.yaml, dollars_per_hour of the GPU",  # noqa: E501
    "plan --utilisation": "a finished short training scales the hours (docs/cluster.md); omit it",
    "plot --format": "SVG, for dark and light pages, and PDF are always written; omit it",
    "preflight --offline": "files that are here are not asked for; without a network all others fail at once; omit it",  # noqa: E501
    "recipes": "docs/wmt14.md compares the recipes",
    "score --detokenise": "`sacremoses -l de detokenize < TOKENS > PLAIN` turns tokens into plain text",  # noqa: E501
    "score --force": "`--no-warning` scores the lines as they are",
    "score --join-pieces": "without it `score` prints the command that joins the pieces; omit it",
    "score --lowercase": "the definitions that end with _lc ignore case, and are always printed; omit it",  # noqa: E501
    "score --repair": "without it `score` prints the command that undoes the form; omit it",
    "search --length-penalty-form": "the search has the system's own form; omit it",
    "search --metric": "the pairs are scored by the metric that judges the paper's tables; omit it",
    "search --output-folder": "the table is printed: `aiayn search RUN > search.md`",
    "search --stop": "the search has the system's own stopping rule; omit it",
    "tables --log-cache": "logs are read anew each time, and nothing of them is kept; omit it",
    "unit:": "lengths count the words that `tokenise` leaves; omit it",
    "unlock": "after a killed snakemake paste the lines of docs/faults.md, section 'After a killed snakemake'",  # noqa: E501
}
# fmt: on


def explain_removed_verb(verb: str) -> str:
    """Return a sentence on a removed verb, or "" if the verb is not in the table."""
    return f"the verb {verb!r} is gone: {REMOVED[verb]}" if verb in REMOVED else ""


def explain_removed_flag(verb: str, arguments: Iterable[str]) -> str:
    """Return a sentence on the first removed flag (or removed value of a flag) in a verb's
    arguments, or "".
    """
    words = " ".join(argument.replace("=", " ", 1) for argument in arguments)
    for name, replacement in REMOVED.items():
        removed_verb, _, flag = name.partition(" ")
        if flag and removed_verb == verb and f" {flag} " in f" {words} ":
            return f"{flag} is gone: {replacement}"
    return ""


def explain_removed_key(key: str) -> str:
    """Return a sentence on a removed config key, or "" if the key is not in the table."""
    name = f"{key}:"
    return f"the key {key!r} is gone: {REMOVED[name]}" if name in REMOVED else ""
