"""What tracking costs, as a multiple of a plain float64 run: operators large enough to time, and chains of them."""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812
from common import report

from zeroulp import track

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def draw(*shape: int, seed: int = 0) -> Any:
    """Integers from -1 to 1."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-1, 2, shape, generator=generator).float()


def perceptron(x: Any, *weights: Any) -> Any:
    """Products, biases and relus."""
    for weight in weights:
        x = torch.relu(x @ weight + 1)
    return x


def network(x: Any, first: Any, second: Any) -> Any:
    """Convolutions, relu, pooling."""
    x = torch.relu(F.conv2d(x, first, padding=1))
    return F.avg_pool2d(torch.relu(F.conv2d(F.max_pool2d(x, 2), second, padding=1)), 2)


def gradients(x: Any, weight: Any) -> Any:
    """Those of a convolution by its operands."""
    with torch.enable_grad():
        x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
        return torch.autograd.grad(torch.relu(F.conv2d(x, weight, padding=1)).sum(), (x, weight))


def attention(q: Any, k: Any, v: Any) -> Any:
    """Linear, causal."""
    return (q @ k.transpose(-1, -2)).tril() @ v


def elementwise(x: Any, y: Any) -> Any:
    """Twenty operations that read memory and do little."""
    for _ in range(5):
        x = torch.relu(x * 0.5 + y)
        x = torch.where(x > y, x, -y)
    return x


def aggregate(x: Any, index: Any) -> Any:
    """Rows gathered and added up elsewhere."""
    return torch.zeros_like(x).index_add(0, index.flip(0), x[index])


CASES: list[tuple[str, Callable[..., Any], list[Any]]] = [
    ("matmul 1024", torch.matmul, [draw(1024, 1024), draw(1024, 1024, seed=1)]),
    ("batched matmul 32 x 256", torch.matmul, [draw(32, 256, 256), draw(32, 256, 256, seed=1)]),
    (
        "conv 3x3, 64 channels, 56 x 56, batch 8",
        lambda x, w: F.conv2d(x, w, padding=1),
        [draw(8, 64, 56, 56), draw(64, 64, 3, 3)],
    ),
    (
        "transposed conv, stride 2",
        lambda x, w: F.conv_transpose2d(x, w, stride=2),
        [draw(4, 32, 28, 28), draw(32, 32, 3, 3)],
    ),
    ("depthwise conv", lambda x, w: F.conv2d(x, w, padding=1, groups=64), [draw(8, 64, 56, 56), draw(64, 1, 3, 3)]),
    ("conv and its gradients", gradients, [draw(4, 32, 28, 28), draw(32, 32, 3, 3)]),
    ("conv, relu, pool, conv, relu, pool", network, [draw(4, 16, 56, 56), draw(32, 16, 3, 3), draw(32, 32, 3, 3)]),
    ("perceptron, 4 layers of 512", perceptron, [draw(512, 512), *[draw(512, 512, seed=i) for i in range(4)]]),
    ("linear attention 8 x 512 x 64", attention, [draw(8, 512, 64, seed=i) for i in range(3)]),
    ("gather and index_add 65,536 x 64", aggregate, [draw(65536, 64), torch.randint(0, 65536, (65536,))]),
    ("20 elementwise operations, 1024 x 1024", elementwise, [draw(1024, 1024), draw(1024, 1024, seed=1)]),
    ("sum 4096 x 4096", lambda x: x.sum(1), [draw(4096, 4096)]),
    ("cumsum 4096 x 4096", lambda x: x.cumsum(1), [draw(4096, 4096)]),
    ("add 4096 x 4096", lambda x, y: x + y, [draw(4096, 4096), draw(4096, 4096, seed=1)]),
    ("relu 4096 x 4096", torch.relu, [draw(4096, 4096)]),
    ("max pool 3x3, 64 channels, 112 x 112", lambda x: F.max_pool2d(x, 3, 2, 1), [draw(2, 64, 112, 112)]),
    ("sort 1024 x 1024", lambda x: x.sort(1)[0], [draw(1024, 1024)]),
    ("softmax after a matmul", lambda a, b: torch.softmax(a @ b, 1), [draw(1024, 1024), draw(1024, 1024, seed=1)]),
]


def keep_memory() -> None:
    """Start again with an allocator that keeps what is freed: else a run pays for pages, or not, by luck."""
    wanted = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 33)}
    if sys.platform == "linux" and not wanted.keys() <= os.environ.keys():
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | wanted)


def seconds(calls: Sequence[Callable[[], Any]], repeats: int) -> list[float]:
    """CPU time of the shortest of a few runs of each, in turn, after one that does not count."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats + 1):
        for call, found in zip(calls, times, strict=True):
            start = time.process_time()
            call()
            found.append(time.process_time() - start)
    return [min(found[1:]) for found in times]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="the shortest run counts (default: 5)")
    parser.add_argument("--storage", default="float32", help="format of intermediates (default: float32)")
    arguments = parser.parse_args(argv)
    keep_memory()
    rows = []
    for name, reference, operands in CASES:
        wide = [x.double() if x.is_floating_point() else x for x in operands]

        def plainly(reference: Any = reference, wide: Any = wide) -> None:
            with torch.no_grad():
                reference(*wide)

        def tracked(reference: Any = reference, wide: Any = wide) -> Any:
            return track.track(reference, wide, storage=arguments.storage)

        plain, whole = seconds([plainly, tracked], arguments.repeats)
        share = tracked().share()
        rows.append([name, f"{plain * 1e3:.1f}", f"{whole * 1e3:.1f}", f"{whole / plain:.1f}", f"{share:.0%}"])
    report(
        f"Tracking, {arguments.storage}, against a plain float64 run ({torch.get_num_threads()} threads)",
        ["reference", "plain, ms", "tracked, ms", "ratio", "exact"],
        rows,
        "CPU time. Tracked: one plain run, the run that tracks, and that both agree. The allocator keeps freed memory\n"
        "(MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_): else new pages take longer than one pass over memory.",
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
