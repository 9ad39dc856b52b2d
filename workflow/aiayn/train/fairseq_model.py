"""Registers the paper's model (`model/transformer.py`) with fairseq as the architecture
`aiayn_transformer`, by subclasses that also have fairseq's base classes.

The parameters have the same names and values as in the plain model. This module adds the interface
that fairseq's training expects: flags, dictionaries and argument names.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fairseq.data import Dictionary
from fairseq.dataclass import FairseqDataclass
from fairseq.models import (
    FairseqDecoder,
    FairseqEncoder,
    FairseqEncoderDecoderModel,
    register_model,
)
from torch import Tensor

from aiayn.errors import UsageError
from aiayn.model.transformer import Decoder, Encoder, EncoderOutput, Transformer, TransformerConfig


@dataclass
class AiaynTransformerConfig(TransformerConfig, FairseqDataclass):  # type: ignore[misc]
    """The flags of fairseq that describe the architecture. `train/fairseq_args.py` sets them."""

    embedding_vectors: str = field(
        default="",
        metadata={"help": "not read; runs trained with version 0.3 have it in their checkpoints"},
    )


class AiaynEncoder(Encoder, FairseqEncoder):  # type: ignore[misc]
    """The Transformer's encoder, with the dictionary and the call signature that
    fairseq expects.
    """

    def __init__(self, dictionary: Dictionary, *parts: Any) -> None:
        # fairseq's base first: each of the two calls initialises nn.Module, which forgets the
        # layers that exist at that time.
        FairseqEncoder.__init__(self, dictionary)
        Encoder.__init__(self, *parts)

    def forward(
        self, src_tokens: Tensor, src_lengths: Tensor | None = None, *, needs_weights: bool = False
    ) -> EncoderOutput:
        """Return the encoder's output. `src_lengths` is not used, because the padding already shows
        the lengths of the source sentences.
        """
        return Encoder.forward(self, src_tokens, needs_weights=needs_weights)


class AiaynDecoder(Decoder, FairseqDecoder):  # type: ignore[misc]
    """The Transformer's decoder, with the dictionary and the call signature that
    fairseq expects.
    """

    def __init__(self, dictionary: Dictionary, *parts: Any) -> None:
        # In this order for the same reason as in AiaynEncoder.
        FairseqDecoder.__init__(self, dictionary)
        Decoder.__init__(self, *parts)

    def forward(  # type: ignore[override]
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOutput,
        *,
        features_only: bool = False,
        needs_weights: bool = False,
        **unused: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Return logits or features, and a dictionary with the attention weights under `weights`.
        fairseq expects word alignments under the key `attn`, which are always None here.
        """
        output, weights = Decoder.forward(
            self,
            prev_output_tokens,
            encoder_out,
            features_only=features_only,
            needs_weights=needs_weights,
        )
        return output, {"attn": [None], "weights": weights}


@register_model("aiayn_transformer", dataclass=AiaynTransformerConfig)
class AiaynTransformer(Transformer, FairseqEncoderDecoderModel):  # type: ignore[misc]
    """The Transformer, with the constructor and the call signature that fairseq expects."""

    def __init__(self, encoder: AiaynEncoder, decoder: AiaynDecoder) -> None:
        # It also sets `encoder` and `decoder`, so Transformer's method need not be called.
        FairseqEncoderDecoderModel.__init__(self, encoder, decoder)

    @classmethod
    def build_model(cls, cfg: AiaynTransformerConfig, task: Any) -> "AiaynTransformer":
        """Make the model for the vocabulary sizes of a fairseq task, with random weights from
        torch.
        """
        # The plain model does not know dictionaries, so they are passed on by `partial`.
        source, target = task.source_dictionary, task.target_dictionary
        return cls.build(
            cfg,
            num_source_symbols=len(source),
            num_target_symbols=len(target),
            padding_index=target.pad(),
            make_encoder=partial(AiaynEncoder, source),
            make_decoder=partial(AiaynDecoder, target),
        )

    def forward(  # type: ignore[override]
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None,
        prev_output_tokens: Tensor,
        *,
        target_BT: Tensor | None = None,
        eps_ls: float = 0.0,
        num_tokens: int | None = None,
        **options: Any,
    ) -> tuple[Any, Any]:
        """Return the decoder's output, or the result of `smoothed_loss` if `target_BT` is given."""
        # The loss goes through `forward`, too, as a wrapper for several ranks expects it.
        if target_BT is None:
            output: tuple[Tensor, Any] = self.decoder(
                prev_output_tokens, self.encoder(src_tokens), **options
            )
            return output
        return self.smoothed_loss(
            src_tokens, prev_output_tokens, target_BT, eps_ls=eps_ls, num_tokens=num_tokens
        )

    def train(self, mode: bool = True) -> "AiaynTransformer":
        """Switch the model to training mode, unless it is already in training mode. fairseq calls
        this method twice in each update.
        """
        # nn.Module would visit each of its modules again.
        if mode and self.training:
            return self
        switched: AiaynTransformer = super().train(mode)
        return switched

    def set_num_updates(self, num_updates: int) -> None:
        """Do nothing. fairseq's method would visit every module, but no module needs the update
        number.
        """

    def prepare_for_inference_(self, cfg: Any) -> None:
        """Raise an error in fairseq-generate and fairseq-interactive, which call this method after
        they have loaded a model.

        Raises:
            UsageError: at every call. The message says which commands to use.
        """
        raise UsageError(
            "fairseq-generate and fairseq-interactive do not translate with aiayn_transformer; use"
            " `aiayn decode` (a test set of a run) or `aiayn evaluate` (any checkpoint and"
            " data-bin)"
        )
