"""The page of a scale answers first which of the paper's conclusions hold."""

import re
from pathlib import Path

from tests.records_factory import make_site, write_dev_scores, write_everything
from tests.unit.test_report import FIGURE, page_of


def test_the_page_answers_first_with_the_contrasts_beside_the_forest_in_bits(
    tmp_path: Path,
) -> None:
    """Base and big have 3.0 and 3.02 bits (sd 0.014, df 2), the row of fewer layers 3.5."""
    site = make_site(tmp_path)
    write_everything(site)
    for system, bits in (("base", (3.0, 3.02)), ("table3_c_n2", (3.5,)), ("big", (3.0, 3.02))):
        for seed, value in enumerate(bits, start=1):
            write_dev_scores(site, system, seed, 25.0, 2**value)
    forest = FIGURE._replace(name="forest_bits")
    page = page_of(site, so_far=False, figures=[FIGURE, forest])
    head, _, rest = page.partition("<nav")
    assert head.index("Which of the paper's conclusions hold at scale demo?") < head.index(
        "<dt>Asked</dt>"
    )
    cards = re.findall(r"<dt>([^<]*)</dt><dd><strong[^>]*>([^<]*)</strong>", head)
    assert cards[:7] == [
        ("As printed", "1 of 15"),
        ("Reversed", "0 of 15"),
        ("Differs", "0 of 15"),
        ("Absent", "1 of 15"),
        ("Too small to tell", "0 of 15"),
        ("Undecided", "0 of 15"),
        ("Not measured yet", "13 of 15"),
    ]
    assert "<li>2 layers are worse than 6: <b>+0.490</b></li>" in head
    assert 'id="figure-forest_bits"' in head
    assert 'id="figure-forest_bits"' not in rest
    assert 'id="figure-forest_bleu"' in rest
    absent = forest._replace(svg="", reason="No forest <here>.")
    assert "No forest &lt;here&gt;." in page_of(site, so_far=False, figures=[FIGURE, absent])


def test_without_a_measured_contrast_a_sentence_stands_in_its_place(tmp_path: Path) -> None:
    page = page_of(make_site(tmp_path), so_far=True)
    assert "No conclusion of the paper's can be called yet" in page
    assert "Which of the paper's conclusions" not in page
