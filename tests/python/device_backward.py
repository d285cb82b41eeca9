"""Gradients of tensors on the double of a device: PyTorch's engine would ask the driver."""

import torch


def gradients(
    output: torch.Tensor, inputs: list[torch.Tensor], slope: torch.Tensor, retain_graph: bool
) -> list[torch.Tensor]:
    """As torch.autograd.grad, by leaves alone: it calls node by node, those of the output first."""
    order: list = []
    todo = [(output.grad_fn, False)]
    seen = set()
    while todo:
        node, is_done = todo.pop()
        if is_done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            todo.append((node, True))
            todo += [(after, False) for after, _ in node.next_functions if after is not None]
    received: dict = {output.grad_fn: {output.output_nr: slope}}
    of_leaf = {}
    with torch.no_grad():
        for node in reversed(order):
            given = received.pop(node, None)
            if given is None:
                continue
            if hasattr(node, "variable"):
                of_leaf[id(node.variable)] = given[0]
                continue
            run = getattr(node, "apply", node)  # of a function that is written in Python
            sent = run(*(given.get(place) for place in range(len(node._input_metadata))))
            sent = sent if isinstance(sent, tuple) else (sent,)
            for (after, place), gradient in zip(node.next_functions, sent, strict=True):
                if after is not None and gradient is not None:
                    places, expected = received.setdefault(after, {}), after._input_metadata[place]
                    gradient = gradient.sum_to_size(tuple(expected.shape)).to(expected.dtype)
                    places[place] = places[place] + gradient if place in places else gradient
    return [of_leaf[id(leaf)] for leaf in inputs]
