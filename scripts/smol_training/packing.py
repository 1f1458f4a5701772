"""Many questions about a picture in one row: each sees the picture and itself, and none sees another one."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trio_profile.inputs.questions import Question
from trio_profile.inputs.smol.shapes import KINDS

_NOTHING = -100


@dataclass(frozen=True)
class Rows:
    """A batch of B rows of T tokens.

    tokens, positions: [B, T]. The pictures' places hold 0.
    visible: [B, 1, T, T], True where a row's token sees another one.
    targets: [B, T], the next token where an answer stands, otherwise -100.
    question: [B, T], the number of the question in the batch; -1 outside of answers.
    first: of the pictures' places.
    """

    tokens: Tensor
    positions: Tensor
    visible: Tensor
    targets: Tensor
    question: Tensor
    first: int

    @property
    def answers(self) -> Tensor:
        """[B, T], True where the next token belongs to an answer."""
        return self.targets != _NOTHING


class Packing:
    """Makes rows of tokens with the model's tokenizer, in the form of its chat template."""

    def __init__(self, tokenizer):
        def ids(text: str) -> list[int]:
            return tokenizer(text, add_special_tokens=False).input_ids

        self.ids = ids
        self.before, self.after = ids("<|im_start|>user\n"), ids("\n")
        self.ask, self.end = ids("<|im_end|>\n<|im_start|>assistant\n"), ids("<|im_end|>")

    def rows(self, asked: Sequence[Sequence[Question]], places: Tensor, whole: int) -> Rows:
        """Return a row for each picture.

        places: [B, N], the patches that it shows, ascending. All other tokens have the positions that they would have
            behind all patches.
        whole: number of all patches.
        """
        visual, first = places.shape[1], len(self.before)
        prefix = [*self.before, *[0] * visual, *self.after]
        behind = first + whole + len(self.after)
        rows: list[tuple[list[int], ...]] = []
        number = 0
        for questions, shown in zip(asked, places.tolist(), strict=True):
            tokens = list(prefix)
            positions = [*range(first), *(first + place for place in shown), *range(first + whole, behind)]
            segments, targets, numbers = [0] * len(prefix), [_NOTHING] * len(prefix), [-1] * len(prefix)
            for segment, question in enumerate(questions, 1):
                answer = [*self.ids(f" {question.answer}"), *self.end]
                asking = [*self.ids(question.text), *self.ask]
                words = [*asking, *answer]
                tokens += words
                positions += range(behind, behind + len(words))
                segments += [segment] * len(words)
                following = [_NOTHING] * (len(asking) - 1) + answer + [_NOTHING]
                targets += following
                numbers += [number if target != _NOTHING else -1 for target in following]
                number += 1
            rows.append((tokens, positions, segments, targets, numbers))
        longest = max(len(row[0]) for row in rows)
        tokens, positions, segments, targets, numbers = (
            torch.tensor([row[part] + [fill] * (longest - len(row[part])) for row in rows])
            for part, fill in enumerate((0, 0, -1, _NOTHING, -1))
        )
        same = segments[:, :, None] == segments[:, None, :]
        visible = (same | (segments[:, None, :] == 0)).tril()
        visible |= torch.eye(longest, dtype=torch.bool)
        return Rows(tokens, positions, visible[:, None], targets, numbers, len(self.before))


def shares(right: Sequence[bool], kinds: Sequence[str]) -> dict[str, float]:
    """Return the share of right answers of each kind."""
    counted = {kind: [ok for ok, of in zip(right, kinds, strict=True) if of == kind] for kind in KINDS}
    return {kind: sum(oks) / len(oks) for kind, oks in counted.items() if oks}
