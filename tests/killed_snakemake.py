"""The lines of docs/faults.md that a person pastes after a snakemake was killed, and bash that
runs them.
"""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

_SECTION = re.compile(
    r"^## After a killed snakemake$.*?^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


def paste_lines(folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Give bash the lines as they stand in the document, in a working directory."""
    match = _SECTION.search(
        (Path(__file__).parents[1] / "docs" / "faults.md").read_text(encoding="utf-8")
    )
    assert match is not None, "docs/faults.md lacks the lines"
    return subprocess.run(
        ["bash"],
        input=match[1],
        cwd=folder,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=420,
    )
