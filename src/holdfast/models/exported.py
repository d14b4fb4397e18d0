"""Programs of ``torch.export`` as modules that can be replicated, compared, moved and attacked like any other."""

from collections.abc import Callable

import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from holdfast.errors import InvalidArgument, ModelError


class ExportedModule(nn.Module):
    """The graph of a program, without what only checks its inputs. One input and one output: a batch, and its class scores.

    A program that was exported for so many rows, or for at most so many, gets batches of exactly that many.
    """

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__()
        given = [spec for spec in program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]
        answers = program.graph_signature.user_outputs
        if len(given) != 1 or len(answers) != 1:
            raise InvalidArgument(
                f"expected a program from one batch to its class scores, got one with {len(given)} inputs and {len(answers)} "
                f"outputs; export a module whose forward takes the batch and returns the logits"
            )
        # Without guards, which would be Python code out of a file; and without the hooks that hold closures.
        stateful = program.module(check_guards=False)
        graph = fx.Graph()
        graph.output(graph.graph_copy(stateful.graph, {}))
        self.graph = fx.symbolic_trace(fx.GraphModule(stateful, graph))  # names nodes as a copy of it would
        first = next(node for node in stateful.graph.nodes if node.op == "placeholder")
        rows, *shape = first.meta["val"].shape
        self.shape = tuple(each if isinstance(each, int) else None for each in shape)
        self.rows = rows if isinstance(rows, int) else _most_rows(program, rows)

    def forward(self, batch: Tensor) -> Tensor:
        """Class scores, in parts of as many rows as the program takes."""
        mine = tuple(batch.shape[1:])
        if len(mine) != len(self.shape) or any(
            want not in (None, got) for want, got in zip(self.shape, mine, strict=True)
        ):
            wanted = ", ".join("any" if each is None else str(each) for each in self.shape)
            raise ModelError(f"it was exported for inputs of shape ({wanted}), got inputs of shape {mine}")
        if not self.rows:
            return self._scores(batch)
        return in_parts(self._scores, batch, self.rows)

    def _scores(self, batch: Tensor) -> Tensor:
        found: Tensor = self.graph(batch)[0]
        return found


def in_parts(scores: Callable[[Tensor], Tensor], batch: Tensor, rows: int) -> Tensor:
    """Answers of something that takes exactly so many rows; the last part is filled up with its own first row."""
    parts = []
    for start in range(0, len(batch), rows):
        part = batch[start : start + rows]
        filled = torch.cat((part, part[:1].expand(rows - len(part), *part.shape[1:]))) if len(part) < rows else part
        parts.append(scores(filled)[: len(part)])
    return torch.cat(parts)


def _most_rows(program: ExportedProgram, rows: torch.SymInt) -> int:
    """The most rows that a program takes; 0 if there is no such limit."""
    limit = program.range_constraints.get(rows.node.expr)
    most = None if limit is None else limit.upper
    return int(most) if most is not None and most.is_Integer else 0
