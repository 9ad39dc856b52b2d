"""Everything that touches torch and fairseq. Importing this package imports neither; its modules do."""

import logging

# At import fairseq advises to install what its speech tasks could use.
logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)
