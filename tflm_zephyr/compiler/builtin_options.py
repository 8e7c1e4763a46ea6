# SPDX-License-Identifier: Apache-2.0
"""An operator's options as the C struct that TFLM's kernel finds in TfLiteNode::builtin_data.

Sources: tensorflow/lite/core/c/builtin_op_data.h for the structs, core/api/flatbuffer_conversions.cc for what its parse
functions make of the schema's tables. An operator without a table has all fields zero, as they leave them. Operators
that call subgraphs or name variables are not here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tflm_zephyr.compiler.fixed_point import finite
from tflm_zephyr.compiler.ir.structs import Elements, Enumerator, FieldValue, Struct
from tflm_zephyr.model import Operator, TensorType
from tflm_zephyr.tflm import cortex_m_sizes

_FIELDS: Mapping[str, str] = {
    "TfLiteAddParams": "activation pot_scale_int16",
    "TfLiteArgMaxParams": "output_type",
    "TfLiteArgMinParams": "output_type",
    "TfLiteBatchMatMulParams": "adj_x adj_y asymmetric_quantize_inputs",
    "TfLiteCastParams": "in_data_type out_data_type",
    "TfLiteConcatenationParams": "axis activation",
    "TfLiteConvParams": "padding stride_width stride_height activation dilation_width_factor dilation_height_factor "
    "quantized_bias_type",
    "TfLiteCumsumParams": "exclusive reverse",
    "TfLiteDepthToSpaceParams": "block_size",
    "TfLiteDepthwiseConvParams": "padding stride_width stride_height depth_multiplier activation "
    "dilation_width_factor dilation_height_factor",
    "TfLiteDivParams": "activation",
    "TfLiteFullyConnectedParams": "activation weights_format keep_num_dims asymmetric_quantize_inputs "
    "quantized_bias_type",
    "TfLiteGatherParams": "axis batch_dims",
    "TfLiteL2NormParams": "activation",
    "TfLiteLeakyReluParams": "alpha",
    "TfLiteMirrorPaddingParams": "mode",
    "TfLiteMulParams": "activation",
    "TfLitePackParams": "values_count axis",
    "TfLitePoolParams": "padding stride_width stride_height filter_width filter_height activation",
    "TfLiteReducerParams": "keep_dims",
    "TfLiteReshapeParams": "shape num_dimensions",
    "TfLiteResizeBilinearParams": "align_corners half_pixel_centers",
    "TfLiteResizeNearestNeighborParams": "align_corners half_pixel_centers",
    "TfLiteSVDFParams": "rank activation asymmetric_quantize_inputs",
    "TfLiteShapeParams": "out_type",
    "TfLiteSoftmaxParams": "beta",
    "TfLiteSpaceToDepthParams": "block_size",
    "TfLiteSplitParams": "num_splits",
    "TfLiteSplitVParams": "num_splits",
    "TfLiteSqueezeParams": "squeeze_dims num_squeeze_dims",
    "TfLiteStridedSliceParams": "begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask offset",
    "TfLiteSubParams": "activation pot_scale_int16",
    "TfLiteTransposeConvParams": "padding stride_width stride_height activation quantized_bias_type",
    "TfLiteUnidirectionalSequenceLSTMParams": "activation cell_clip proj_clip time_major asymmetric_quantize_inputs",
    "TfLiteUnpackParams": "num axis",
}
"""The fields of each struct that its parse function sets."""

_OPTIONS: Mapping[str, str] = {
    "activation": "fused_activation_function",
    "dilation_height_factor": "dilation_h_factor",
    "dilation_width_factor": "dilation_w_factor",
    "num_dimensions": "new_shape",
    "num_squeeze_dims": "squeeze_dims",
    "shape": "new_shape",
    "stride_height": "stride_h",
    "stride_width": "stride_w",
}
"""The schema's name of a field, where it is another one."""

_ACTIVATIONS = ("None", "Relu", "ReluN1To1", "Relu6", "Tanh", "SignBit")
_PADDINGS = ("Same", "Valid")
_MIRRORS = ("Reflect", "Symmetric")
_WEIGHTS = ("Default", "Shuffled4x16Int8")
_KINDS = tuple(TensorType)  # in the order of the schema's numbers


def _one_of(prefix: str, names: Sequence[str]) -> Callable[[object], Enumerator]:
    def enumerator(value: object) -> Enumerator:
        assert isinstance(value, int)
        if not 0 <= value < len(names):
            raise ValueError(f"is option {value} of {len(names)}")
        return Enumerator(prefix + names[value])

    return enumerator


def _plain(value: object) -> FieldValue:
    assert isinstance(value, bool | int | float)
    return finite(value) if isinstance(value, float) else value


def _count(value: object) -> int:
    return len(value) if isinstance(value, list | tuple) else 0


_data_type = _one_of("", [kind.tflite_name if kind.has_size else "kTfLiteNoType" for kind in _KINDS])
_VALUES: Mapping[str, Callable[[object], FieldValue]] = {
    "activation": _one_of("kTfLiteAct", _ACTIVATIONS),
    "in_data_type": _data_type,
    "mode": _one_of("kTfLiteMirrorPadding", _MIRRORS),
    "num_dimensions": _count,
    "num_squeeze_dims": _count,
    "out_data_type": _data_type,
    "out_type": _data_type,
    "output_type": _data_type,
    "padding": _one_of("kTfLitePadding", _PADDINGS),
    "quantized_bias_type": _data_type,
    "weights_format": _one_of("kTfLiteFullyConnectedWeightsFormat", _WEIGHTS),
}


def builtin_options(operator: Operator, revision: str) -> Struct | None:
    """The C struct of a builtin operator's options at a known TFLM revision.

    None where the kernel has no such struct. ValueError for an option that TFLM refuses, and for a struct that is not
    known here.
    """
    struct = cortex_m_sizes(revision).builtin_data.get(operator.key)
    if struct is None or operator.custom_code is not None:
        return None
    if struct not in _FIELDS:
        raise ValueError(f"has options in {struct}, which is not known here")
    fields = _fields(operator, _FIELDS[struct].split()) if operator.options else ()
    return Struct("kOptions", struct, tuple(fields), zeroed=True)


def _fields(operator: Operator, names: Sequence[str]) -> list[tuple[str, FieldValue]]:
    found: list[tuple[str, FieldValue]] = []
    for name in names:
        value = operator.options.get(_OPTIONS.get(name, name))
        if name in ("shape", "squeeze_dims"):
            given = value if isinstance(value, list | tuple) else ()
            if len(given) > 8:
                raise ValueError(f"has {len(given)} dimensions in its options, and TFLM takes 8")
            found.append((name, Elements(tuple(given))))
        elif value is not None:
            found.append((name, _VALUES.get(name, _plain)(value)))
    return found
