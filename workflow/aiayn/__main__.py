"""Runs the command `aiayn VERB`: imports the module of this verb, and turns errors into exit codes.

Exit codes: 0 done, 1 the input is wrong or a check failed, 2 the command line is wrong, 3 a run
failed, 4 the verdict differs from the verdict that `--expect` requires, 130 interrupted by Ctrl-C,
141 the program that reads the output through a pipe has ended.
"""

import argparse
import errno
import importlib
import logging
import os
import select
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from aiayn.cli.flags import VerbParser, add_flags, help_format
from aiayn.errors import AiaynError, ConfigError, UsageError, did_you_mean, require_no_password
from aiayn.terminal import coloured, reflowed, text_width, visible, wrapped
from aiayn.wings import module_of_verb, present_wings

# The verbs of the core, in the order of the data flow. `analysis/<wing>/wing.py` registers the
# verbs of a wing.
CORE_VERBS = {
    "fetch": "get a corpus: download and verify it, or generate it",
    "clean": "prepare text and drop unfit training pairs, as the corpus file says",
    "segment": "learn the subword vocabulary (section 5.1)",
    "binarize": "turn text into fairseq's data-bin",
    "train": "train one system with one seed, or resume it (section 5)",
    "status": "list the runs: state, update, loss, speed, time left, cost, job, log",
    "cancel": "end a run that is training or queued; it saves first",
    "average": "average the last checkpoints of a training (section 6.1)",
    "decode": "translate a test set with beam search (section 6.1)",
    "perplexity": "measure perplexity per subword on a test set (Table 3)",
    "score": "score translations under every definition of BLEU, with signatures",
    "evaluations": "average, decode, perplexity and score of a training, in one process",
    "baselines": (
        "score translations that need no training: a copy, a dictionary, the nearest sentence"
    ),
    "check": "compare every file of a results or runs folder with its record",
    "tables": "render the paper's tables with our numbers, from records or from logs",
    "translate": "translate sentences from standard input with a trained run",
    "init": "write the workflow into a folder: Snakefile, config and profiles",
    "list": "list the systems, corpora and scales that can be named",
    "completion": "print what makes a shell complete verbs and flags",
}
# The verbs that the rules call, with files that other rules have made.
STAGE_VERBS = (
    "fetch",
    "clean",
    "segment",
    "binarize",
    "train",
    "average",
    "decode",
    "perplexity",
    "evaluations",
    "baselines",
)
# The extra of pyproject.toml that brings a module.
EXTRA_BY_MODULE = {
    "altair": "figures",
    "fairseq": "train",
    "omegaconf": "train",
    "safetensors": "train",
    "sentencepiece": "train",
    "snakemake": "workflow",
    "submitit": "workflow",
    "subword_nmt": "train",
    "torch": "train",
    "vl_convert": "figures",
}
EXIT_INTERRUPTED = 130
EXIT_UNREAD = 141  # 128 + SIGPIPE, as a shell reports it


def verbs() -> list[str]:
    """Return the verbs (subcommands) of the core, then the verbs of wings (optional packages)."""
    return [*CORE_VERBS, *(verb for wing in present_wings().values() for verb in wing.verbs)]


def build_parser(verb: str) -> VerbParser:
    """Return the parser of one verb, made by that verb's module.

    The module of a verb imports large packages (pandas, scipy, torch) inside its functions, so that
    `--help` and the message about a mistyped flag appear at once.
    """
    # Wings are read only for a verb that is not in the core.
    name = f"aiayn.cli.{verb}" if verb in CORE_VERBS else module_of_verb(verb)
    module = importlib.import_module(str(name))
    parser = VerbParser(
        prog=f"aiayn {verb}",
        # The docstring of the module is the text of --help.
        description=reflowed(module.__doc__ or ""),
        epilog=f"example:\n  {module.EXAMPLE}",
        formatter_class=help_format,
    )
    # The first line is enough for an error message.
    parser.example = module.EXAMPLE.partition("\n")[0]
    add_flags(parser, module.Flags)
    # argparse keeps a group of flags that exclude each other on one line, however long it is.
    usage = parser.format_usage()
    if max(map(len, usage.split("\n"))) > text_width():
        lines = wrapped(" ".join(usage.split()), "", "  ")
        parser.usage = "\n".join(lines).removeprefix("usage: ")
    # `completion` needs all parsers, and may not import this module, which is above it.
    parser.set_defaults(run_verb=module.run, make_parsers=_all_parsers)
    return parser


def _all_parsers() -> dict[str, argparse.ArgumentParser]:
    return {verb: build_parser(verb) for verb in verbs()}


def _overview() -> str:
    groups = [("verbs:", CORE_VERBS)]
    groups += [
        (f"more: {wing.summary} ({name})", wing.verbs)
        for name, wing in present_wings().items()
        if wing.verbs
    ]
    lines = [
        "usage: aiayn VERB [--help] ...",
        "",
        "Reproduce 'Attention Is All You Need', stage by stage.",
        "",
    ]
    for heading, summary_by_verb in groups:
        lines += [
            heading,
            *(f"  {verb:<12}{summary}" for verb, summary in summary_by_verb.items()),
            "",
        ]
    explained = "`aiayn help VERB` explains a verb, with an example."
    return "\n".join(
        [*lines, f"{explained} The whole workflow is run by snakemake: see README.md."]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb (subcommand) and return the exit code. If the program that reads the output
    through a pipe has ended, the command ends without a message.
    """
    exit_code = 0
    try:
        try:
            exit_code = _run(arguments)
        # Raised before a verb runs: a wing cannot be read, or a flag contains a password.
        except ConfigError as error:
            _print_error("aiayn", str(error))
            exit_code = error.exit_code
        # Flushed here, because Python itself flushes too late to catch an error: it would print
        # `Exception ignored ... BrokenPipeError`.
        finally:
            print(end="", flush=True)
    except BrokenPipeError:
        # The pipe of a child process can break, too. That is a mistake in the program.
        if not _is_unread():
            raise
        _discard_output()
        return exit_code or EXIT_UNREAD
    # The flush failed, for example because standard output is a file on a full disk.
    except OSError as error:
        _discard_output()
        if exit_code == 0:
            _print_error("aiayn", f"standard output: {error.strerror}; it is incomplete")
        return exit_code or 1
    return exit_code


def _discard_output() -> None:
    """Send the rest of the output, which Python flushes when it exits, to /dev/null."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_unread() -> bool:
    """Return whether standard output is a pipe that its reader has closed."""
    # Standard output is an object in memory in some tests and notebooks.
    try:
        number = sys.stdout.fileno()
    except OSError:
        return False
    # poll reports the end of the reader by ERR or HUP, without writing anything.
    poll = select.poll()
    poll.register(number, select.POLLOUT)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _print_error(program: str, text: str) -> None:
    print(f"{coloured(program, 'red', sys.stderr)}: {visible(text)}", file=sys.stderr)


def _run(arguments: Sequence[str] | None) -> int:
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    # First of all, because records, logs and error messages repeat the command line.
    for argument in arguments:
        require_no_password(argument, "the command line")
    if arguments[:1] == ["help"]:  # `help VERB` is `VERB --help`
        arguments = [*arguments[1:2], "--help"]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_overview())
        return 0 if arguments else 2
    if arguments[0] in ("-V", "--version"):
        print(_version())
        return 0
    verb = arguments[0]
    # `verbs()` reads the wings. A verb of the core is found without it, and works although the file
    # of a wing is broken.
    if verb not in CORE_VERBS and verb not in verbs():
        hint = did_you_mean(verb, verbs(), f"expected one of {', '.join(verbs())}")
        _print_error("aiayn", f"no verb {verb!r}; {hint}")
        return 2
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    # The log of a training has fairseq's progress. The other verbs show only its warnings.
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    return _call(verb, build_parser(verb).parse_args(arguments[1:]))


def _call(verb: str, parsed: argparse.Namespace) -> int:
    """Run a verb with its parsed flags. Print the message of an error, and return the exit code."""
    try:
        _require_workflow(verb)
        _check_record_path(getattr(parsed, "record", None))
        # Most verbs return None. `doctor`, for example, answers by its exit code.
        exit_code: int | None = parsed.run_verb(parsed)
        return exit_code or 0
    except AiaynError as error:
        text = str(error)
        exit_code = error.exit_code
    except ModuleNotFoundError as error:
        text = _explain_missing_package(error, verb)
        exit_code = 1
        # No extra has the module, so it is one of ours: the program has a mistake.
        if not text:
            raise
    except KeyboardInterrupt:
        text = "interrupted"
        exit_code = EXIT_INTERRUPTED
    except OSError as error:
        # `main` ends without a message if the reader of the output, such as `head`, has ended.
        if isinstance(error, BrokenPipeError) and _is_unread():
            raise
        text = _explain_os_error(error)
        exit_code = 1
    _print_error(f"aiayn {verb}", text)
    return exit_code


def _explain_missing_package(error: ModuleNotFoundError, verb: str) -> str:
    """Return a message with the command that installs the missing package, or "" if no extra of
    this project contains the package.
    """
    from aiayn.paths import install_command

    # The error may be about a submodule: `torch.cuda` is in the package torch.
    package = (error.name or "").partition(".")[0]
    extra = EXTRA_BY_MODULE.get(package, "")
    if not extra:
        return ""
    # `aiayn translate` has an extra of its own, which does not contain fairseq.
    if verb == "translate" and package in ("torch", "sentencepiece"):
        extra = verb
    return f"needs {package}, which is not installed: type {install_command(extra)}"


def _explain_os_error(error: OSError) -> str:
    """Return a message about an OSError: the file, the operating system's message and, if the disk
    is full, its free space.
    """
    text = f"{error.filename or 'standard output or a temporary file'}: {error.strerror or error}"
    if error.filename and error.errno in (errno.ENOSPC, errno.EDQUOT):
        folder = Path(error.filename).absolute()
        # The file or its folder may not exist yet. The nearest existing folder is on the same disk.
        while not folder.is_dir():
            folder = folder.parent
        free_mb = shutil.disk_usage(folder).free / 1e6
        text += f"; {folder} has {free_mb:,.1f} MB free: free some, or name another folder"
    return text


def _version() -> str:
    """Return the version, commit and folder of this installation, for bug reports."""
    import importlib.metadata

    from aiayn.provenance import commit_label

    folder = Path(__file__).resolve().parent
    return f"aiayn {importlib.metadata.version('aiayn')}, commit {commit_label()}, {folder}"


def _check_record_path(record: Path | None) -> None:
    """Require that the path of a record ends in .json. The other outputs of a verb have the same
    name with a different suffix.
    """
    if record is not None and record.suffix != ".json":
        raise UsageError(f"--record {record}: expected a name that ends in .json; outputs do not")


def _require_workflow(verb: str) -> None:
    """Require that the folder of configs exists. If the verb is a stage of the workflow, require
    also that this folder is not inside the installed package, where users do not edit files.
    """
    from aiayn.spec.system import CHECKOUT, CONFIG_FOLDER, PACKED_WORKFLOW

    if not CONFIG_FOLDER.is_dir():
        raise ConfigError(
            f"{CONFIG_FOLDER}: no such folder: this installation is a copy of the code without its"
            " config; in the checkout run `pip install --constraint constraints.txt --editable .`,"
            " or install the wheel"
        )
    if verb in STAGE_VERBS and CHECKOUT == PACKED_WORKFLOW:
        raise ConfigError(
            f"{Path.cwd()}: not in the folder of a workflow, of which this verb is a stage; `aiayn"
            " init FOLDER` writes one: type the command there"
        )


if __name__ == "__main__":
    sys.exit(main())
