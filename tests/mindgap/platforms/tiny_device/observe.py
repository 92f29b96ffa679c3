"""What test_tiny_device.py runs in a process of its own, since a process can have one PrivateUse1 device.

Prints one JSON line: for each case, what was seen to run on the CPU, and what the dispatcher's table alone tells.
"""

import json
import sys
import time

import tiny_accelerator
import torch

from mindgap.aten.torch_private.operator_events import operator_events
from mindgap.platforms.pytorch.device import host_runs as seen

a = torch.randn(4, 6).to("tiny")


def backward():
    leaf = a.clone().requires_grad_()
    torch.autograd.grad(leaf.relu().mul(2).tanh().sum(), [leaf])


CASES = {
    # By the boxed fallback: itself, below a composite kernel, in place, without a tensor as its result.
    "tanh": lambda: torch.tanh(a),
    "softmax": lambda: torch.softmax(a, -1),
    "in place": lambda: a.clone().tanh_(),
    "equal": lambda: torch.equal(a, a),
    "empty": lambda: torch.tanh(a[:0]),
    "number": lambda: torch.tanh(a.sum()),
    # By a registration of its own, from inside a kernel, without an operand.
    "cos": lambda: torch.cos(a),
    "float64": lambda: a.double() * 2,
    "tril_indices": lambda: torch.tril_indices(3, 3, device="tiny"),
    "backward": backward,
    # Not at all.
    "own kernels": lambda: (torch.relu(a + 1) @ a.t()).exp().sum(0).sum().item(),
    "views": lambda: a.expand(2, 4, 6).reshape(8, 6).t().contiguous().chunk(2),
    "copies": lambda: torch.tanh(a.cpu()).to("tiny").to(torch.float64).clone(),
    "constants": lambda: (torch.full((3,), 2.0, device="tiny"), torch.tensor([1.0, 2.0], device="tiny")),
}


def cost() -> dict[str, float]:
    """CPU seconds of 300 small operators, recorded and not, the best of five, and the number of events."""
    x, w = torch.randn(8, 8).to("tiny"), torch.randn(8, 8).to("tiny")

    def work():
        value = x
        for _ in range(100):
            value = torch.relu(value @ w) * 0.1

    def recorded():
        with operator_events() as events:
            work()
        seen.host_runs(events.roots, "tiny", boxed=True)

    def best(function):
        spent = []
        for _ in range(5):
            start = time.process_time()
            function()
            spent.append(time.process_time() - start)
        return min(spent)

    return {"plain": best(work), "recorded": best(recorded)}


def main() -> None:
    assert tiny_accelerator.__version__ == "1.2"
    if "cost" in sys.argv:
        print(json.dumps(cost()))
        return
    found = {"boxed fallback": seen.boxed_fallback("tiny")}
    for name, case in CASES.items():
        with operator_events() as events:
            case()
        runs = seen.host_runs(events.roots, "tiny", boxed=True)
        found[name] = {
            "ran": [[run.operator, run.called] for run in runs],
            "by copies": [run.operator for run in seen.host_runs(events.roots, "tiny", boxed=False)],
            "by table": seen.through_boxed_fallback(events.roots, "tiny"),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
