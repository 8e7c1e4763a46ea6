# SPDX-License-Identifier: Apache-2.0
"""A kernel's call as a value: the kernel's name and the sizes that its work depends on."""

from __future__ import annotations

from dataclasses import dataclass, replace

FAST = "tflm_fast"
"""The namespace of our own kernels."""
DEPTHWISE = "DEPTHWISE_CONV_2D"
_DEPTHWISE = frozenset(
    {
        f"{FAST}::Depthwise",
        "arm_depthwise_conv_3x3_s8",
        "arm_depthwise_conv_s8",
        "arm_depthwise_conv_s8_opt",
        "arm_depthwise_conv_wrapper_s8",
    }
)


@dataclass(frozen=True)
class OwnForm:
    """The variant of a kernel of ours: `form` of requantisation, "" for other libraries' kernels.

    `tile` and `step` are the pixels and the rows that a depthwise kernel of ours computes at a time, 0 for others.
    """

    form: str = ""
    tile: int = 0
    step: int = 0


@dataclass(frozen=True)
class Shape:
    """A kernel's call for a whole layer.

    `kernel` is a function ("arm_convolve_s8", "tflm_fast::Dense"), or operator and type ("MAX_POOL_2D int8") for what a
    library computes by a function of its own choice. Sizes are those of images: an operator on elements alone has them
    as `depth` (the input) and `channels` (the output), with the input's dimensions or the runs of elements that
    lie together as `width`; one on rows, such as a softmax, the rows as `width`.
    """

    kernel: str
    height: int
    width: int
    depth: int
    out_height: int
    out_width: int
    channels: int
    high: int = 1
    wide: int = 1
    down: int = 1
    across: int = 1
    top: int = 0
    left: int = 0
    dilated: bool = False
    own: OwnForm = OwnForm()

    @property
    def pixels(self) -> int:
        """Output pixels."""
        return self.out_height * self.out_width

    @property
    def outputs(self) -> int:
        """Output elements."""
        return self.pixels * self.channels

    @property
    def depthwise(self) -> bool:
        """Whether each output channel reads a single input channel."""
        return self.kernel in _DEPTHWISE or self.kernel.startswith(DEPTHWISE)

    @property
    def taps(self) -> int:
        """Products of an output."""
        window = self.high * self.wide
        return window if self.depthwise else window * self.depth

    def of_rows(self, rows: int) -> Shape:
        """The same with as many output rows, and the input rows that these read."""
        return replace(self, out_height=rows, height=(rows - 1) * self.down + self.high)

    def turned(self) -> Shape:
        """The same with columns for rows."""
        return replace(
            self,
            height=self.width,
            width=self.height,
            out_height=self.out_width,
            out_width=self.out_height,
            high=self.wide,
            wide=self.high,
            down=self.across,
            across=self.down,
            top=self.left,
            left=self.top,
        )

    @property
    def rows_inside(self) -> int:
        """Rows of all windows that lie inside of the input, above and below."""
        return self.out_width * _inside(self.height, self.out_height, self.high, self.down, self.top)

    @property
    def inside(self) -> int:
        """Pixels of all windows that lie inside of the input."""
        rows = _inside(self.height, self.out_height, self.high, self.down, self.top)
        return rows * _inside(self.width, self.out_width, self.wide, self.across, self.left)


def _inside(size: int, outputs: int, window: int, stride: int, padding: int) -> int:
    firsts = (k * stride - padding for k in range(outputs))
    return sum(max(0, min(size, first + window) - max(0, first)) for first in firsts)
