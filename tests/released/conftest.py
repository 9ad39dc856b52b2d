"""Makes the fixtures of the engine's tests available to the tests of the wing `released`, and a model
of fairseq's own.
"""

import pytest

from tests.engine.conftest import _few_validations, data, finished, results, segmented
from tests.released.foreign_models import Foreign, make_foreign

__all__ = ["_few_validations", "data", "finished", "foreign", "results", "segmented"]


@pytest.fixture(scope="session")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Foreign:
    """Return a transformer that fairseq's own code has trained, with its text and data-bin."""
    return make_foreign(tmp_path_factory.mktemp("foreign"))
