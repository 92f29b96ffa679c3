"""The frame of a short script: the parts that are the same for all faults, as source with places to fill.

Places to fill: `PLATFORM`, the platform's name; `RUN`, the call that runs it; `MINE`, `RIGHT` and `LIMIT`, what is
compared with what; `EXACT`, the lines that compute the float64 result; `CALL`, what may raise; `HANGS`.
"""

from __future__ import annotations

from typing import Final, Literal

#: What an error is relative to: the largest element of the output, or its element; or whether elements are equal.
Compare = Literal["largest", "element", "equal"]

_COMPARE: Final = '''

def error(found, exact):
    """The largest difference, relative to MAGNITUDE.

    Infinity where shapes, NaN or infinities differ, and where results that are no floats differ at all.
    """
    if found.shape != exact.shape:
        return float("inf")
    if not (exact.is_floating_point() or exact.is_complex()):
        return 0.0 if torch.equal(found, exact) else float("inf")
    if exact.is_complex():
        found, exact = torch.view_as_real(found.resolve_conj()), torch.view_as_real(exact.resolve_conj())
    found, exact = found.double(), exact.double()
    finite = exact.isfinite()
    same = torch.equal(found.isnan(), exact.isnan()) and torch.equal(found.isfinite(), finite)
    if not same or not torch.equal(found[exact.isinf()], exact[exact.isinf()]):
        return float("inf")
    if not finite.any():
        return 0.0
'''
#: What a script divides by -> its words, and the end of `error`.
_ENDS_OF_COMPARE: Final = {
    "largest": (
        "the largest magnitude of `exact`",
        """    worst, size = (found - exact)[finite].abs().max(), exact[finite].abs().max()
    return float(worst / size) if size else float(worst)
""",
    ),
    "element": (
        "the element of `exact`",
        """    apart = (found - exact)[finite].abs()
    return float((apart / exact[finite].abs())[apart > 0].max()) if apart.any() else 0.0
""",
    ),
}
_EQUAL: Final = '''

def error(found, expected):
    """0 where shapes and elements are equal, else infinity: nothing here is rounded but by a cast. NaN equals NaN."""
    if found.shape != expected.shape:
        return float("inf")
    equal = (found == expected) | ((found != found) & (expected != expected))
    return 0.0 if equal.all() else float("inf")
'''


def error_source(compare: Compare) -> str:
    """Returns the function's source."""
    if compare == "equal":
        return _EQUAL
    words, end = _ENDS_OF_COMPARE[compare]
    return _COMPARE.replace("MAGNITUDE", words) + end


_VERSIONS: Final = '''
def versions():
    """The versions of the packages, the processor and its instruction set{device}."""
    found = [f"{{name}} {{version(name)}}" for name in PACKAGES]
    return ", ".join([*found, platform.machine(), torch.backends.cpu.get_cpu_capability(){name}])
'''


def versions_source(hardware: str = "") -> str:
    """Returns the function that lists versions. `hardware`: an expression for the name of a device, or empty."""
    return _VERSIONS.format(device=", and the device" * bool(hardware), name=f", {hardware}" * bool(hardware))


#: Around a model with dtypes that numpy does not hold: bfloat16 and float8 cross as float32, complex numbers as pairs.
BOUNDARY: Final = '''
class Boundary(torch.nn.Module):
    """A model whose operands and results have dtypes that numpy holds; the conversions are exact."""

    def __init__(self, model, dtypes):
        super().__init__()
        self.model, self.dtypes = model, dtypes

    def forward(self, *given):
        given = [convert(value, dtype) for value, dtype in zip(given, self.dtypes, strict=True)]
        results = self.model(*given)
        return tuple(plain(value) for value in (results if isinstance(results, tuple) else (results,)))


def plain(value):
    if value.is_complex():
        return torch.view_as_real(value.resolve_conj())
    return value.float() if value.is_floating_point() and value.itemsize < 4 and value.dtype != torch.float16 else value


def convert(value, dtype):
    """The inverse of `plain`; a value of any other dtype stays as it is."""
    if dtype.is_complex:
        return torch.view_as_complex(value)
    return value.to(dtype) if dtype.is_floating_point and dtype.itemsize < 4 and dtype != torch.float16 else value


def bounded(Model, fresh):
    return Boundary(Model(), [value.dtype for value in fresh()]).eval(), lambda: tuple(map(plain, fresh()))


def declared(results, expected):
    pairs = zip(results, expected, strict=True) if expected else ()
    return [convert(value, right.dtype) for value, right in pairs]
'''
EXACT: Final = """    widened = [
        x.to(torch.promote_types(x.dtype, torch.float64)) if x.is_floating_point() or x.is_complex() else x
        for x in fresh()
    ]
    exacts = as_tuple(Model().double().eval()(*widened))  # in float64"""
MAIN_WRONG: Final = '''
def as_tuple(results):
    return tuple(value.detach() for value in (results if isinstance(results, (tuple, list)) else (results,)))


def furthest(found, right):
    """The place of the element that is furthest off; NaN where the other is none comes first."""
    apart = (found.to(torch.complex128) - right.to(torch.complex128)).abs().nan_to_num(nan=0.0)
    apart[(found != found) != (right != right)] = float("inf")
    return tuple(int(i) for i in torch.unravel_index(apart.flatten().argmax(), apart.shape))


def shows(name, Model, fresh):
    """Whether one case shows the fault."""
    expecteds = as_tuple(Model().eval()(*fresh()))
EXACT
    founds = as_tuple(RUN)
    fault = False
    for number, (found, expected, exact) in enumerate(zip(founds, expecteds, exacts, strict=True)):
        eps = torch.finfo(expected.dtype).eps if expected.is_floating_point() or expected.is_complex() else 0.0
        off, limit = error(MINE, RIGHT), LIMIT
        wrong = found.dtype != expected.dtype or off > limit
        fault |= wrong
        kind = f"{str(expected.dtype).removeprefix('torch.')}{list(expected.shape)}"
        print(f"{name}, output {number}: {kind}, error {off:.3g}, limit {limit:.3g}{': wrong' if wrong else ''}")
        if found.dtype != expected.dtype or found.shape != expected.shape:
            print("  eager:", expected.dtype, list(expected.shape), " PLATFORM:", found.dtype, list(found.shape))
        elif found.numel():
            place = furthest(MINE, RIGHT)
            values = " ".join(f"{side} {value[place].item():.{17 if value.itemsize > 4 else 9}g} " for side, value in (
                ("eager", expected), ("PLATFORM", found), ("float64", exact)))
            print(f"  at {list(place)}: {values}")
    return fault


def main():
    torch.set_printoptions(precision=17)
    print(versions())
    found = False
    for name, (Model, fresh) in CASES.items():
        try:
            found |= shows(name, Model, fresh)
        except Exception:
            traceback.print_exc()
            print(f"{name}: it fails, which is another fault than the one that this script shows.")
            return 2
    print("FAULT" if found else "NO FAULT")
    return int(found)
'''
RAISES: Final = '''
def raised(call):
    """What `call` raises, and nothing that it prints; None where it raises nothing."""
    try:
        call()
    except Exception as problem:
        return problem, ""
    return None, ""


'''
DIAGNOSED: Final = '''
def diagnosed(call):
    """What `call` raises, None where it raises nothing, and what is printed on standard error meanwhile."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as printed:
        kept, problem = os.dup(2), None
        os.dup2(printed.fileno(), 2)
        try:
            call()
        except Exception as found:
            problem = found
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
        printed.seek(0)
        return problem, printed.read().decode(errors="replace")
'''
MAIN_FAILS: Final = '''
def is_the_failure(problem, printed):
    """Whether an exception, or one that it follows from, is the failure that this script shows."""
    while problem is not None:
        if FAILURE is not None and type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem) + printed:
            return True
        problem = problem.__cause__ or problem.__context__
    return False


def main():
    torch.set_printoptions(precision=17)
    print(versions())
    found = False
    for name, (Model, fresh) in CASES.items():
        expected = Model().eval()(*fresh())
        expected = expected if isinstance(expected, tuple) else (expected,)
        print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in expected))
        problem, printed = CALL
        if problem is None:
            print(f"{name}: PLATFORM runs it")
            continue
        print(f"{name}: PLATFORM raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
        if not is_the_failure(problem, printed):
            print("It is another failure than the one that this script shows.")
            return 2
        found = True
    print("FAULT" if found else "NO FAULT")
    return int(found)
'''
MAIN_CHILD: Final = '''
def child(name):
    """Runs one case on the platform in a process of its own. Returns its exit status, None where it did not end."""
    running = subprocess.Popen([sys.executable, __file__, name], start_new_session=True)
    try:
        return running.wait(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        return None


def main():
    if sys.argv[1:]:
        Model, fresh = CASES[sys.argv[1]]
        RUN
        return 0
    torch.set_printoptions(precision=17)
    print(versions())
    found = False
    for name, (Model, fresh) in CASES.items():
        print(f"{name}: eager gives", Model().eval()(*fresh()), flush=True)
        status = child(name)
        if status is None:
            print(f"{name}: PLATFORM does not end within {LIMIT_S} s")
            fault = HANGS
        elif status < 0:
            print(f"{name}: PLATFORM ends with", signal.Signals(-status).name)
            fault = not HANGS and SIGNAL in ("", signal.Signals(-status).name)
        else:
            print(f"{name}: PLATFORM", "runs it" if status == 0 else "fails in another way")
            fault = False
        if not fault and status != 0:
            print("Another fault than the one that this script shows.")
            return 2
        found |= fault
    print("FAULT" if found else "NO FAULT")
    return int(found)
'''
MAIN_VERSION: Final = '''
def main():
    """A result shows the fault that is as far from the expected one as half of the way to the faulty one."""
    torch.set_printoptions(precision=17)
    print(versions())
    found = False
    for Model, fresh in CASES.values():
        try:
            results = RUN
        except Exception as problem:
            print("PLATFORM raised:", type(problem).__name__, str(problem)[-2000:])
            print("It is another fault than the one that this script shows.")
            return 2
        for number, (a, e, f) in enumerate(zip(results, EXPECTED, FAULTY, strict=True)):
            print(f"output {number}:")
            print("  PLATFORM:", a.dtype, a)
            print("  expected:", e.dtype, e)
            print("  faulty:", f.dtype, f)
            way = error(f, e)
            found |= a.dtype != e.dtype or (way > 0 and error(a, e) >= way / 2)
    print("FAULT" if found else "NO FAULT")
    return int(found)
'''
END: Final = """
if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
"""
