"""Everything that touches torch and fairseq. Importing this package imports neither; its modules do."""

import logging
import warnings

# What fairseq says at import is for others: what its speech tasks could use, and backslashes in its source.
logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)
warnings.filterwarnings("ignore", category=SyntaxWarning, module=r".*[/\\]fairseq[/\\]")
