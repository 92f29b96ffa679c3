"""EmbeddingBagOffsets with weights of a dynamic length on OpenVINO's CPU plugin. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import sys
import traceback


def main():
    import numpy as np
    import openvino as ov
    from openvino import opset15 as op

    print("openvino", ov.__version__)
    table, indices = np.linspace(-1, 1, 48, dtype="float32").reshape(6, 8), np.array([0, 1, 2, 3, 5, 4], "int32")
    weights = np.full(6, 0.5, "float32")
    right = np.stack([0.5 * table[:3].sum(0), 0.5 * table[3:].sum(0)])

    def run(size):
        t, i, w = op.parameter([-1, -1], np.float32), op.parameter([size], np.int32), op.parameter([size], np.float32)
        offsets, no_default = op.constant(np.array([0, 3], "int32")), op.constant(np.int32(-1))
        model = ov.Model([op.embedding_bag_offsets(t, i, offsets, no_default, w, "sum")], [t, i, w])
        compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        return compiled([table, indices, weights])[0]

    np.testing.assert_allclose(run(6), right, rtol=1e-5)
    print("indices and weights of shape [6]: right")
    try:
        np.testing.assert_allclose(run(-1), right, rtol=1e-5)
    except RuntimeError as error:
        if "to_shape was called on a dynamic shape" not in str(error):
            raise
        print("indices and weights of shape [-1]:", str(error).strip().splitlines()[-1])
        return 1
    return 0


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    if status != 2:
        print("FAULT" if status else "NO FAULT")
    sys.exit(status)
