"""Runs axe-core (tests/support/axe) on a page in headless Chromium and returns its findings.

Only a copy of the page is changed: it gets axe-core and a script that opens every folded part, runs
the checks, and leaves their result as the page's only content.
"""

import json
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.support.browser import final_dom

AXE_FOLDER = Path(__file__).parent / "axe"
AXE_PATH = AXE_FOLDER / "axe.min.js"
ALL_RULES = "null"
# What differs between the schemes; the other rules do not look at colours.
RULES_OF_COLOURS = '["color-contrast", "link-in-text-block"]'
RESULT = re.compile(r'<script type="application/json" id="axe">(.*?)</script>', re.DOTALL)
RUN = """
window.addEventListener("load", async () => {
  for (const folded of document.querySelectorAll("details")) folded.open = true;
  const rules = RULES;
  const options = {resultTypes: ["violations"], ...(rules && {runOnly: rules})};
  let result;
  try { result = (await axe.run(document, options)).violations; }
  catch (error) { result = String(error); }
  const script = document.createElement("script");
  script.type = "application/json";
  script.id = "axe";
  script.textContent = JSON.stringify(result).replaceAll("<", "\\u003c");
  document.documentElement.replaceChildren(script);
});
"""
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')


@dataclass(frozen=True)
class Finding:
    """A rule of axe-core that a page breaks, at `num_places` places. `html` is the first of them.

    `impact` is minor, moderate, serious or critical.
    """

    rule: str
    impact: str
    num_places: int
    html: str


def find_faults(
    page_path: Path, *, width: int, scheme: str, rules: str = ALL_RULES
) -> list[Finding]:
    """Return the rules that a page breaks in a window of `width` pixels and a colour scheme."""
    script = RUN.replace("RULES", rules)
    # The page's own policy allows no script, so that of axe would not run.
    page = POLICY.sub("", page_path.read_text(encoding="utf-8"))
    axe = AXE_PATH.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        copy_path = Path(folder) / page_path.name
        copy_path.write_text(
            f"{page}<script>{axe}</script><script>{script}</script>", encoding="utf-8"
        )
        dom = final_dom(copy_path, width=width, scheme=scheme)
    matched = RESULT.search(dom)
    if matched is None:
        raise RuntimeError(f"{page_path}: axe-core left no result; the page ends {dom[-300:]!r}")
    violations = json.loads(matched[1])
    if isinstance(violations, str):
        raise RuntimeError(f"{page_path}: axe-core: {violations}")
    return [
        Finding(
            violation["id"],
            violation["impact"],
            len(violation["nodes"]),
            violation["nodes"][0]["html"],
        )
        for violation in violations
    ]
