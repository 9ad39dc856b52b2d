"""Says why a file holds nothing of fairseq."""

from aiayn.logs.types import LogFile


def file_problem(path: str, log_file: LogFile) -> str:
    """Return why a file holds nothing: it cannot be read, or is not a log; '' without a reason."""
    refusal = log_file.refusal
    if refusal is not None:
        place = f"{path}:{refusal.line}" if refusal.line else path
        return f"{place}: {refusal.text}; {refusal.next_step}"
    if not log_file.num_lines:
        return "is empty: copy the log again"
    if log_file.entries:
        return ""
    if not log_file.other_programs:
        return "not a log of fairseq"
    names = [
        f"fairseq-{name}" if name != "another toolkit" else name for name in log_file.other_programs
    ]
    return f"a log of {', '.join(names)}: no training and no translation with a score"
