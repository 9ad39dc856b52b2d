"""sentencepiece itself, as anybody would call it: learn pieces from files, or split lines of standard input.

    python sentencepiece_peer.py learn MODEL_PREFIX NUM_PIECES NUM_THREADS SAMPLE_LINES FILE...
    python sentencepiece_peer.py encode MODEL NUM_THREADS < text > pieces

Learning has the choices of `aiayn.text.subword` (BPE, bytes for the unseen, text taken as it is), so that it is the
same task; SAMPLE_LINES is how many lines sentencepiece draws of all, 0 for all.
"""

import itertools
import sys

import sentencepiece

_LINES_PER_BLOCK = 50_000


def learn(prefix: str, num_pieces: int, num_threads: int, sample_lines: int, paths: list[str]) -> None:
    """Write `prefix.model` and `prefix.vocab`."""
    sentencepiece.SentencePieceTrainer.train(
        input=paths,
        model_prefix=prefix,
        model_type="bpe",
        vocab_size=num_pieces,
        character_coverage=1.0,
        byte_fallback=True,
        normalization_rule_name="identity",
        max_sentencepiece_length=64,
        input_sentence_size=sample_lines,
        shuffle_input_sentence=sample_lines > 0,
        num_threads=num_threads,
        minloglevel=2,
    )


def encode(model_path: str, num_threads: int) -> None:
    """Write each line's pieces, blanks between them."""
    model = sentencepiece.SentencePieceProcessor(model_file=model_path)
    text = open(sys.stdin.fileno(), encoding="utf-8", newline="\n")  # noqa: SIM115 (open as long as the process)
    pieces = open(sys.stdout.fileno(), "w", encoding="utf-8", newline="\n")  # noqa: SIM115
    while block := [line.removesuffix("\n") for line in itertools.islice(text, _LINES_PER_BLOCK)]:
        encoded = model.encode(block, out_type=str, num_threads=num_threads)
        pieces.writelines(f"{' '.join(line)}\n" for line in encoded)
    pieces.flush()


if __name__ == "__main__":
    action, name, *numbers_and_paths = sys.argv[1:]
    if action == "learn":
        num_pieces, num_threads, sample_lines = map(int, numbers_and_paths[:3])
        learn(name, num_pieces, num_threads, sample_lines, numbers_and_paths[3:])
    else:
        encode(name, int(numbers_and_paths[0]))
