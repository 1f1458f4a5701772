"""The quantities of the dense model or of a cell: sizes, counted work, energy, agreement, retention."""

from collections.abc import Sized
from typing import Annotated

from pydantic import Field, model_validator

from trio_profile.records.record import OneOrMore, Record, ZeroOrMore
from trio_profile.records.study import Share


def require_one_length(**lists: Sized) -> None:
    """Raise ValueError if lists that belong together differ in length. The names are those of the fields."""
    lengths = {name: len(values) for name, values in lists.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(" and ".join(f"{count} {name}" for name, count in lengths.items()) + " belong together")


class Shape(Record):
    """The sizes of the decoder, of its input and of the vision tower.

    num_layers: number of decoder layers.
    hidden, intermediate: widths of the residual stream and of the FFN.
    query_width, kv_width: widths of all query heads together, and of all key heads together.
    heads: number of query heads.
    vocabulary: number of logits; 0 if it is not known.
    ffn_matrices: matrices of one FFN: 3 with a gate, otherwise 2.
    itemsize: bytes of one number.
    batch: samples in the batch.
    visual_tokens, text_tokens: tokens of one sample that enter the decoder.
    text_after: the text tokens that follow the picture.
    vision_hidden, vision_heads: width and heads of the vision tower; 0 if methods cannot look into it.
    patches: patches of one crop in the vision tower; 0 if methods cannot look into it, or if crops have any size.
    merged: number of patches that become one visual token, in a tower that merges them itself; otherwise 0.
    """

    num_layers: OneOrMore
    hidden: OneOrMore
    intermediate: OneOrMore
    query_width: OneOrMore
    kv_width: OneOrMore
    heads: OneOrMore
    vocabulary: ZeroOrMore
    ffn_matrices: OneOrMore
    itemsize: OneOrMore
    batch: OneOrMore
    visual_tokens: OneOrMore
    text_tokens: ZeroOrMore
    text_after: ZeroOrMore = 0
    vision_hidden: ZeroOrMore = 0
    vision_heads: ZeroOrMore = 0
    patches: ZeroOrMore = 0
    merged: ZeroOrMore = 0


class Counted(Record):
    """The counted work of one prefill.

    torch_flops: FLOPs by torch's counter.
    selection_flops: the part of `torch_flops` that the method's selections cost.
    fvcore_macs: MACs by fvcore; None if its tracer cannot follow the model.
    fvcore_reason: why the tracer cannot follow.
    uncounted: operators with a matrix product but without a formula. If there are any, the counts are too low.
    """

    torch_flops: ZeroOrMore
    selection_flops: ZeroOrMore = 0
    fvcore_macs: ZeroOrMore | None = None
    fvcore_reason: str | None = None
    uncounted: tuple[str, ...] = ()


class Energy(Record):
    """The measured energy above the idle GPU's.

    prefill_j: joules of one prefill.
    token_j: joules of one decoded token.
    idle_w: power of the idle GPU in watts.
    seconds: how long the work was repeated for each of the two.
    reason: why there is no measurement.
    """

    prefill_j: float | None = None
    token_j: float | None = None
    idle_w: float | None = None
    seconds: float | None = None
    reason: str | None = None


class Fidelity(Record):
    """How close the pruned model's output is to the dense model's output.

    Each field has one value for each question. A random method runs with several seeds: then the values of all
    questions for the first seed come first, then those for the second seed, and so on.

    draws: number of seeds.
    kl_nats: KL(dense ‖ pruned) of the next token's distribution.
    top1: whether the most likely next token is the same.
    same: whether the generated answer is the same; empty for pictures without a question.
    correct: whether the answer is the known answer; empty if no answers are known.
    """

    draws: OneOrMore = 1
    kl_nats: Annotated[tuple[float, ...], Field(min_length=1)]
    top1: tuple[bool, ...]
    same: tuple[bool, ...] = ()
    correct: tuple[bool, ...] = ()

    @model_validator(mode="after")
    def _require_one_value_for_each_question(self) -> "Fidelity":
        require_one_length(kl_nats=self.kl_nats, top1=self.top1)
        for name in ("same", "correct"):
            if values := getattr(self, name):
                require_one_length(kl_nats=self.kl_nats, **{name: values})
        if len(self.kl_nats) % self.draws:
            raise ValueError(f"{len(self.kl_nats)} values cannot come from {self.draws} seeds")
        return self


class Retention(Record):
    """The four numbers that are called retention. Each is a share of the visual tokens, 0 to 1.

    nominal: the share that the user gave.
    layer_average: the schedule's share, averaged over the decoder's layers.
    final_layer: the schedule's share in the last layer.
    realised: the share that really ran, averaged over the decoder's layers.
    """

    nominal: Share
    layer_average: Share
    final_layer: Share
    realised: Share
