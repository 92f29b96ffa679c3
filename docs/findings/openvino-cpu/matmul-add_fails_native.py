"""An int32 product and a constant vector in OpenVINO. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import sys
import traceback


def main():
    import numpy as np
    import openvino as ov
    from openvino import opset13

    print("openvino", ov.__version__)
    a, b = np.arange(16, dtype=np.int32).reshape(4, 4), np.eye(4, dtype=np.int32)
    vector = np.arange(4, dtype=np.int32)
    fails = []
    for columns in (4, -1):
        for name, join in (("Add", opset13.add), ("Multiply", opset13.multiply)):
            given = [opset13.parameter([4, 4], np.int32), opset13.parameter([4, columns], np.int32)]
            product = opset13.matmul(*given, False, False)
            model = ov.Model([join(product, opset13.constant(vector))], given)
            try:
                found = ov.compile_model(model, "CPU")([a, b])[0]
            except RuntimeError as error:
                if "dnnl_postops_composer" not in str(error):
                    raise
                check = next(line for line in str(error).splitlines() if "dnnl_postops" in line)
                print(f"{name}, {columns} columns (-1: dynamic): does not compile: {check.split(' at ')[0]}")
                fails.append(name)
                continue
            right = a + vector if name == "Add" else a * vector
            assert (found == right).all()
            print(f"{name}, {columns} columns (-1: dynamic): right")
    return int(bool(fails))


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    if status != 2:
        print("FAULT" if status else "NO FAULT")
    sys.exit(status)
