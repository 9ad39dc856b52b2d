"""Pictures of a page for whoever changes it: 1,400 and 420 px wide, light, dark and printed.

    python -m tests.support.screenshots results/demo/report.html --output /tmp/look --height 4000

writes `report-1400-light.png`, `report-420-dark.png` and so on, and `report-print-1.png` for each of
the first printed pages. The printed pages need `pdftoppm` (Debian's package poppler-utils), without
which the PDF stays.
"""

import argparse
import shutil
import subprocess
from pathlib import Path

from tests.support.browser import SETTING_BY_SCHEME, write_pdf, write_picture

WIDTHS = (1400, 420)
NUM_PRINTED_PAGES = 3


def write_pictures(page_path: Path, output_folder: Path, height: int) -> list[Path]:
    """Write all pictures of a page. Return their paths."""
    output_folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for width in WIDTHS:
        for scheme in SETTING_BY_SCHEME:
            picture_path = output_folder / f"{page_path.stem}-{width}-{scheme}.png"
            write_picture(page_path, picture_path, width=width, height=height, scheme=scheme)
            paths.append(picture_path)
    pdf_path = output_folder / f"{page_path.stem}-print.pdf"
    write_pdf(page_path, pdf_path)
    if not shutil.which("pdftoppm"):
        return [*paths, pdf_path]
    last_page = ["-l", str(NUM_PRINTED_PAGES)]
    subprocess.run(
        ["pdftoppm", "-png", "-r", "80", *last_page, str(pdf_path), str(pdf_path.with_suffix(""))],
        check=True,
    )
    return [*paths, *sorted(output_folder.glob(f"{pdf_path.stem}-*.png"))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path, help="an HTML file")
    parser.add_argument("--output", type=Path, default=Path("build/look"), help="a folder")
    parser.add_argument("--height", type=int, default=900, help="pixels from the top (900)")
    arguments = parser.parse_args()
    for path in write_pictures(arguments.page, arguments.output, arguments.height):
        print(path)
