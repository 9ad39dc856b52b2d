"""The training step of "Attention Is All You Need" in NumPy and float64, written from the paper.

It has the model (section 3, post-norm, one shared embedding matrix), the loss with label smoothing
(section 5.4), a backward pass written by hand, Adam and equation (3) (section 5.3), and dropout
(section 5.4) with masks that it is given. It imports nothing of the product. It computes one sentence pair after the other and so needs no
padding and no padding mask.

The paper is silent on five points. They follow tensor2tensor v1.0.4, except the start symbol:
projections of attention have biases, layer normalisation adds 1e-6 to the variance, each symbol
other than the reference has the probability eps_ls / (V - 1), the loss is the mean over target
tokens, and the decoder's input begins with </s> (as in fairseq).

Each function that computes a part of the model returns its output and a function `backward`, which
takes the gradient of the loss in that output, adds to the gradients of the weights, and returns the
gradient in each input. `grad_x` is the gradient of the loss in x.

Shapes are in the names: T tokens (S of the source, Q queries, K keys), M = d_model, P = h * d_k,
H heads, D = d_k = d_v, V symbols. A matrix W maps rows: y = x W + b.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Arrays = dict[str, Array]
Backward = Callable[[Array], Array]
Symbols = Sequence[int]
Pairs = Sequence[tuple[Symbols, Symbols]]  # source and target, each with </s> at the end
# Of a sentence pair, by the name of the place: (T, M), each entry 0 or 1 / (1 - P_drop). A place
# without a mask has no dropout.
Masks = Mapping[str, Array]

NORM_EPSILON = 1e-6  # tensor2tensor v1.0.4; the paper gives no value


@dataclass(frozen=True)
class Settings:
    """The settings of a training in the paper's symbols. `end_symbol` is </s>."""

    num_layers: int
    d_model: int
    num_heads: int
    d_k: int
    eps_ls: float
    adam_beta_1: float
    adam_beta_2: float
    adam_epsilon: float
    warmup_steps: int
    end_symbol: int


def train(
    settings: Settings,
    weights: Arrays,
    pairs: Pairs,
    num_updates: int,
    masks_by_step: Sequence[Sequence[Masks]] = (),
) -> None:
    """Update the weights in place `num_updates` times, each time with all sentence pairs.

    `masks_by_step` has masks of each pair for each update. Without it there is no dropout.
    """
    adam = Adam(settings, weights)
    num_tokens = sum(len(target) for _, target in pairs)
    for step in range(1, num_updates + 1):
        masks = masks_by_step[step - 1] if masks_by_step else ()
        _, gradients = loss_and_gradients(settings, weights, pairs, masks)
        means = {name: gradient / num_tokens for name, gradient in gradients.items()}
        adam.update(means, step, learning_rate(settings, step))


def learning_rate(settings: Settings, step: int) -> float:
    """Return equation (3)'s rate of a step. The first step is 1."""
    warmup = step * settings.warmup_steps**-1.5
    return float(settings.d_model**-0.5 * min(step**-0.5, warmup))


class Adam:
    """Adam as in Kingma and Ba (2015), algorithm 1, with the constants of section 5.3."""

    def __init__(self, settings: Settings, weights: Arrays) -> None:
        self.settings, self.weights = settings, weights
        self.first = {name: np.zeros_like(weight) for name, weight in weights.items()}
        self.second = {name: np.zeros_like(weight) for name, weight in weights.items()}

    def update(self, gradients: Arrays, step: int, rate: float) -> None:
        """Update the weights in place. Epsilon is added after the correction of bias."""
        beta_1, beta_2 = self.settings.adam_beta_1, self.settings.adam_beta_2
        for name, gradient in gradients.items():
            self.first[name] = beta_1 * self.first[name] + (1 - beta_1) * gradient
            self.second[name] = beta_2 * self.second[name] + (1 - beta_2) * gradient**2
            mean = self.first[name] / (1 - beta_1**step)
            variance = self.second[name] / (1 - beta_2**step)
            self.weights[name] -= rate * mean / (np.sqrt(variance) + self.settings.adam_epsilon)


def loss_and_gradients(
    settings: Settings, weights: Arrays, pairs: Pairs, masks_by_pair: Sequence[Masks] = ()
) -> tuple[float, Arrays]:
    """Return the sum of the smoothed loss over all target tokens, in nats, and its gradients."""
    model = Transformer(settings, weights)
    loss = 0.0
    for index, (source, target) in enumerate(pairs):
        model.masks = masks_by_pair[index] if masks_by_pair else {}
        loss += model.add_pair(source, target)
    return loss, model.gradients


def sinusoids(num_positions: int, d_model: int) -> Array:
    """Return section 3.5's encodings of the positions from 0, (T, M)."""
    table = np.empty((num_positions, d_model))
    for i in range(d_model // 2):
        angle = np.arange(num_positions) / 10000 ** (2 * i / d_model)
        table[:, 2 * i], table[:, 2 * i + 1] = np.sin(angle), np.cos(angle)
    return table


def softmax(scores: Array) -> Array:
    """Return the softmax over the last axis."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    probabilities: Array = powers / powers.sum(axis=-1, keepdims=True)
    return probabilities


class Transformer:
    """The model of section 3 with its weights, and the gradients of the pairs added so far.

    `masks` are those of the present pair.
    """

    def __init__(self, settings: Settings, weights: Arrays) -> None:
        self.settings, self.weights = settings, weights
        self.masks: Masks = {}
        self.gradients = {name: np.zeros_like(weight) for name, weight in weights.items()}

    def add_pair(self, source: Symbols, target: Symbols) -> float:
        """Return the loss of a sentence pair, and add its gradients."""
        memory_SM, encoder_backward = self.encode(source)
        shifted = [self.settings.end_symbol, *target[:-1]]
        features_TM, decoder_backward = self.decode(shifted, memory_SM)
        loss, grad_features_TM = self.smoothed_loss(features_TM, target)
        encoder_backward(decoder_backward(grad_features_TM))
        return loss

    def smoothed_loss(self, features_TM: Array, target: Symbols) -> tuple[float, Array]:
        """Return the loss (sections 3.4 and 5.4) and its gradient in the decoder's output."""
        embedding_VM = self.weights["embedding"]
        num_symbols, rows = len(embedding_VM), np.arange(len(target))
        probability_TV = softmax(features_TM @ embedding_VM.T)
        smoothed_TV = np.full_like(probability_TV, self.settings.eps_ls / (num_symbols - 1))
        smoothed_TV[rows, list(target)] = 1 - self.settings.eps_ls
        loss = -(smoothed_TV * np.log(probability_TV)).sum()

        grad_logits_TV = probability_TV - smoothed_TV
        self.gradients["embedding"] += grad_logits_TV.T @ features_TM
        return float(loss), grad_logits_TV @ embedding_VM

    def encode(self, source: Symbols) -> tuple[Array, Callable[[Array], None]]:
        """Return the encoder's output (section 3.1, left of Figure 1)."""
        x_SM, embed_backward = self.embed("encoder.embed", source)
        layers = []
        for index in range(self.settings.num_layers):
            x_SM, layer_backward = self.encoder_layer(f"encoder.{index}", x_SM)
            layers.append(layer_backward)

        def backward(grad_x_SM: Array) -> None:
            for layer_backward in reversed(layers):
                grad_x_SM = layer_backward(grad_x_SM)
            embed_backward(grad_x_SM)

        return x_SM, backward

    def decode(self, shifted: Symbols, memory_SM: Array) -> tuple[Array, Backward]:
        """Return the decoder's output (section 3.1, right of Figure 1).

        `backward` returns the gradient in the encoder's output.
        """
        x_TM, embed_backward = self.embed("decoder.embed", shifted)
        layers = []
        for index in range(self.settings.num_layers):
            x_TM, layer_backward = self.decoder_layer(f"decoder.{index}", x_TM, memory_SM)
            layers.append(layer_backward)

        def backward(grad_x_TM: Array) -> Array:
            grad_memory_SM = np.zeros_like(memory_SM)
            for layer_backward in reversed(layers):
                grad_x_TM, grad_read_SM = layer_backward(grad_x_TM)
                grad_memory_SM += grad_read_SM
            embed_backward(grad_x_TM)
            return grad_memory_SM

        return x_TM, backward

    def embed(self, place: str, symbols: Symbols) -> tuple[Array, Callable[[Array], None]]:
        """Return embeddings times sqrt(d_model), plus positions (sections 3.4 and 3.5), with
        dropout on the sums (section 5.4).
        """
        scale, indices = np.sqrt(self.settings.d_model), list(symbols)
        embedded_TM = self.weights["embedding"][indices] * scale
        x_TM = embedded_TM + sinusoids(len(symbols), self.settings.d_model)

        def backward(grad_x_TM: Array) -> None:
            np.add.at(self.gradients["embedding"], indices, drop_backward(grad_x_TM) * scale)

        dropped_TM, drop_backward = self.drop(place, x_TM)
        return dropped_TM, backward

    def drop(self, place: str, x_TM: Array) -> tuple[Array, Backward]:
        """Return x with dropout, by the mask of the place."""
        mask_TM = self.masks.get(place, np.ones_like(x_TM))

        def backward(grad_y_TM: Array) -> Array:
            return grad_y_TM * mask_TM

        return x_TM * mask_TM, backward

    def encoder_layer(self, name: str, x_SM: Array) -> tuple[Array, Backward]:
        """Return LayerNorm(x + SelfAttention(x)), then the same with the feed-forward network.

        Dropout is on the output of each sub-layer, before it is added to its input (section 5.4).
        """
        read_SM, attention_backward = self.attention(f"{name}.self", x_SM, x_SM)
        read_SM, drop_read = self.drop(f"{name}.self", read_SM)
        y_SM, first_backward = self.layer_norm(f"{name}.norm_self", x_SM + read_SM)
        inner_SM, feed_forward_backward = self.feed_forward(f"{name}.feed_forward", y_SM)
        inner_SM, drop_inner = self.drop(f"{name}.feed_forward", inner_SM)
        z_SM, last_backward = self.layer_norm(f"{name}.norm_feed_forward", y_SM + inner_SM)

        def backward(grad_z_SM: Array) -> Array:
            grad_sum_SM = last_backward(grad_z_SM)
            grad_y_SM = grad_sum_SM + feed_forward_backward(drop_inner(grad_sum_SM))
            grad_sum_SM = first_backward(grad_y_SM)
            grad_query_SM, grad_memory_SM = attention_backward(drop_read(grad_sum_SM))
            return grad_sum_SM + grad_query_SM + grad_memory_SM

        return z_SM, backward

    def decoder_layer(
        self, name: str, x_TM: Array, memory_SM: Array
    ) -> tuple[Array, Callable[[Array], tuple[Array, Array]]]:
        """Return masked self-attention, attention to the memory, and feed-forward, each as above.

        `backward` returns the gradients in x and in the memory.
        """
        read_TM, self_backward = self.attention(f"{name}.self", x_TM, x_TM, is_causal=True)
        read_TM, drop_self = self.drop(f"{name}.self", read_TM)
        y_TM, first_backward = self.layer_norm(f"{name}.norm_self", x_TM + read_TM)
        read_TM, cross_backward = self.attention(f"{name}.cross", y_TM, memory_SM)
        read_TM, drop_cross = self.drop(f"{name}.cross", read_TM)
        z_TM, second_backward = self.layer_norm(f"{name}.norm_cross", y_TM + read_TM)
        inner_TM, feed_forward_backward = self.feed_forward(f"{name}.feed_forward", z_TM)
        inner_TM, drop_inner = self.drop(f"{name}.feed_forward", inner_TM)
        out_TM, last_backward = self.layer_norm(f"{name}.norm_feed_forward", z_TM + inner_TM)

        def backward(grad_out_TM: Array) -> tuple[Array, Array]:
            grad_sum_TM = last_backward(grad_out_TM)
            grad_z_TM = grad_sum_TM + feed_forward_backward(drop_inner(grad_sum_TM))
            grad_sum_TM = second_backward(grad_z_TM)
            grad_query_TM, grad_memory_SM = cross_backward(drop_cross(grad_sum_TM))
            grad_sum_TM = first_backward(grad_sum_TM + grad_query_TM)
            grad_query_TM, grad_key_TM = self_backward(drop_self(grad_sum_TM))
            return grad_sum_TM + grad_query_TM + grad_key_TM, grad_memory_SM

        return out_TM, backward

    def attention(
        self, name: str, query_QM: Array, memory_KM: Array, *, is_causal: bool = False
    ) -> tuple[Array, Callable[[Array], tuple[Array, Array]]]:
        """Return multi-head attention (section 3.2.2). Each head computes equation (1).

        `backward` returns the gradients in the queries' input and in the memory.
        """
        scale = 1 / np.sqrt(self.settings.d_k)
        q_QP, q_backward = self.linear(f"{name}.q", query_QM)
        k_KP, k_backward = self.linear(f"{name}.k", memory_KM)
        v_KP, v_backward = self.linear(f"{name}.v", memory_KM)
        q_HQD, k_HKD, v_HKD = self.split(q_QP), self.split(k_KP), self.split(v_KP)
        scores_HQK = q_HQD @ k_HKD.transpose(0, 2, 1) * scale
        if is_causal:  # query i sees the keys up to i
            later_QK = np.triu(np.ones(scores_HQK.shape[1:], dtype=bool), k=1)
            scores_HQK[:, later_QK] = -np.inf
        weights_HQK = softmax(scores_HQK)
        out_QM, out_backward = self.linear(f"{name}.out", self.join(weights_HQK @ v_HKD))

        def backward(grad_out_QM: Array) -> tuple[Array, Array]:
            grad_read_HQD = self.split(out_backward(grad_out_QM))
            grad_v_HKD = weights_HQK.transpose(0, 2, 1) @ grad_read_HQD
            grad_weights_HQK = grad_read_HQD @ v_HKD.transpose(0, 2, 1)
            inner_HQ1 = (grad_weights_HQK * weights_HQK).sum(axis=-1, keepdims=True)
            grad_scores_HQK = weights_HQK * (grad_weights_HQK - inner_HQ1) * scale
            grad_query_QM = q_backward(self.join(grad_scores_HQK @ k_HKD))
            grad_k_HKD = grad_scores_HQK.transpose(0, 2, 1) @ q_HQD
            grad_memory_KM = k_backward(self.join(grad_k_HKD)) + v_backward(self.join(grad_v_HKD))
            return grad_query_QM, grad_memory_KM

        return out_QM, backward

    def split(self, x_TP: Array) -> Array:
        """Return the heads of rows, (H, T, D)."""
        return x_TP.reshape(len(x_TP), self.settings.num_heads, -1).transpose(1, 0, 2)

    def join(self, x_HTD: Array) -> Array:
        """Return the rows of heads, one head after the other, (T, P)."""
        return x_HTD.transpose(1, 0, 2).reshape(x_HTD.shape[1], -1)

    def feed_forward(self, name: str, x_TM: Array) -> tuple[Array, Backward]:
        """Return max(0, x W_1 + b_1) W_2 + b_2 (equation (2))."""
        before_TF, first_backward = self.linear(f"{name}.1", x_TM)
        y_TM, second_backward = self.linear(f"{name}.2", np.maximum(before_TF, 0))

        def backward(grad_y_TM: Array) -> Array:
            return first_backward(second_backward(grad_y_TM) * (before_TF > 0))

        return y_TM, backward

    def linear(self, name: str, x_TN: Array) -> tuple[Array, Backward]:
        """Return x W + b."""
        weight_NP, bias_P = self.weights[f"{name}.W"], self.weights[f"{name}.b"]

        def backward(grad_y_TP: Array) -> Array:
            self.gradients[f"{name}.W"] += x_TN.T @ grad_y_TP
            self.gradients[f"{name}.b"] += grad_y_TP.sum(axis=0)
            return grad_y_TP @ weight_NP.T

        return x_TN @ weight_NP + bias_P, backward

    def layer_norm(self, name: str, x_TM: Array) -> tuple[Array, Backward]:
        """Return layer normalisation (Ba et al. 2016) over the features of each token."""
        gain_M, bias_M = self.weights[f"{name}.gain"], self.weights[f"{name}.bias"]
        centred_TM = x_TM - x_TM.mean(axis=1, keepdims=True)
        variance_T1 = (centred_TM**2).mean(axis=1, keepdims=True)
        deviation_T1 = np.sqrt(variance_T1 + NORM_EPSILON)
        normal_TM = centred_TM / deviation_T1

        def backward(grad_y_TM: Array) -> Array:
            self.gradients[f"{name}.gain"] += (grad_y_TM * normal_TM).sum(axis=0)
            self.gradients[f"{name}.bias"] += grad_y_TM.sum(axis=0)
            grad_normal_TM = grad_y_TM * gain_M
            mean_T1 = grad_normal_TM.mean(axis=1, keepdims=True)
            slope_T1 = (grad_normal_TM * normal_TM).mean(axis=1, keepdims=True)
            grad_x_TM: Array = (grad_normal_TM - mean_T1 - normal_TM * slope_T1) / deviation_T1
            return grad_x_TM

        return gain_M * normal_TM + bias_M, backward
