"""The frame of a short script: the parts that are the same for all faults, as source with places to fill.

Places to fill: `PLATFORM`, the platform's name; `RUN`, the call that runs it; `MINE` and `RIGHT`, what is compared with
what; `LIMITED`, what the limit is of.
A script has no function that it does not need: its model, its operands and the runtime's call are most of it.
"""

from __future__ import annotations

from typing import Final, Literal

#: What an error is relative to: the largest element of the output, or its element; or whether elements are equal.
Compare = Literal["largest", "element", "equal"]

#: An exception, a missing package too, ends a script with status 2.
HOOK: Final = 'sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)'
_OFF: Final = '''
def off(found, right):
    """How far each element is off, relative to MAGNITUDE; inf where NaN, inf or integers differ."""
    f, r, real = found.to(torch.complex128), right.to(torch.complex128), right.is_floating_point() or right.is_complex()
    far = ((f - r).abs() / SIZE / real).nan_to_num(torch.inf, torch.inf)
    return torch.where((found == right) | (found.isnan() & right.isnan()), 0.0, far)
'''
_EQUAL: Final = '''
def off(found, right):
    """0 where elements are equal, else infinity: nothing here is rounded but by a cast. NaN equals NaN."""
    return torch.where((found == right) | (found.isnan() & right.isnan()), 0.0, torch.inf)
'''
#: What a script divides by -> its words, and its source.
_SIZES: Final = {
    "largest": ("the largest of `right`", "(max(r[r.isfinite()].abs().tolist(), default=0) or 1)"),
    "element": ("the element of `right`", "r.abs()"),
}


def error_source(compare: Compare) -> str:
    """Returns the source of `off`, by whose largest element a script decides, and at which it prints both sides."""
    if compare == "equal":
        return _EQUAL
    words, size = _SIZES[compare]
    return _OFF.replace("MAGNITUDE", words).replace("SIZE", size)


def versions_source(hardware: str = "") -> str:
    """Returns the statement that prints versions. `hardware`: an expression for the name of a device, or empty."""
    # The system and the machine are the members 0 and 4.
    machine = f"*platform.uname()[::4], torch.backends.cpu.get_cpu_capability(){hardware and ', ' + hardware}"
    return f"""print(*(f"{{p}} {{version(p)}}" for p in PACKAGES), {machine}, sep=", ")"""


#: Around a model with dtypes that numpy does not hold: bfloat16 and float8 cross as float32, complex numbers as pairs.
BOUNDARY: Final = '''
class Boundary(torch.nn.Module):
    """Takes and gives bfloat16 and float8 as float32, and complex numbers as pairs: numpy lacks them. It is exact."""

    def __init__(self, model, given):
        super().__init__()
        self.model, self.dtypes = model, [value.dtype for value in given]

    def forward(self, *given):
        results = self.model(*map(convert, given, self.dtypes))
        return tuple(map(plain, results if isinstance(results, tuple) else (results,)))

small = lambda dtype: dtype.is_floating_point and dtype.itemsize < 4 and dtype != torch.float16
plain = lambda x: torch.view_as_real(x.resolve_conj()) if x.is_complex() else x.float() if small(x.dtype) else x
convert = lambda x, dtype: torch.view_as_complex(x) if dtype.is_complex else x.to(dtype) if small(dtype) else x
'''
FLAT: Final = "flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]"
#: Of a wrong result: outputs without elements have none that is wrong.
FLAT_VALUES: Final = f"{FLAT[:-1]} if each.numel()]"
WIDE: Final = (
    "wide = lambda x: x.to(torch.promote_types(x.dtype, torch.float64)) "
    "if x.is_floating_point() or x.is_complex() else x"
)
#: Where the model runs in float64 too: what stands for what without it.
EXACT: Final = (
    ("    eager, exact = ", "    eager = "),
    (", flat(Model().double().eval()(*map(wide, fresh())))", ""),
    ("(e, a, x)", "(e, a)"),
    (", exact, strict", ", strict"),
    ("  float64 {x[at]}", ""),
)
MAIN_WRONG: Final = """
fault = False
for name, (Model, fresh) in CASES.items():
    eager, exact = flat(Model().eval()(*fresh())), flat(Model().double().eval()(*map(wide, fresh())))
    for number, (e, a, x) in enumerate(zip(eager, flat(RUN), exact, strict=True)):
        far = off(MINE, RIGHT) if (a.dtype, a.shape) == (e.dtype, e.shape) else torch.full(e.shape, torch.inf)
        error, limit = far.max().item(), 16 * LIMITED
        at = torch.unravel_index(far.argmax(), e.shape)
        fault |= (wrong := error > limit)
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}, error {error:.3g}, limit {limit:.3g}"
        print(f"{name}, output {number}: {words}{': wrong' * wrong}")
        print(f"  at {[*map(int, at)]}: eager {e[at]}  PLATFORM {a[at]}  float64 {x[at]}")
"""
MAIN_SHAPE: Final = """
fault = False
for name, (Model, fresh) in CASES.items():
    eager = flat(Model().eval()(*fresh()))
    for number, (e, a) in enumerate(zip(eager, flat(RUN), strict=True)):
        fault |= (wrong := (a.dtype, a.shape) != (e.dtype, e.shape))
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}{': wrong' * wrong}"
        print(f"{name}, output {number}: {words}")
        print(f"  eager {e.flatten()[:4].tolist()}  PLATFORM {a.flatten()[:4].tolist()}")
"""
MAIN_FAILS: Final = """
fault = False
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in flat(Model().eval()(*fresh()))))
    try:
        RUN
        print(f"{name}: PLATFORM runs it")
    except Exception as problem:
        print(f"{name}: PLATFORM raised:", type(problem).__name__, str(problem)[-2000:])
        while problem and not (type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem)):
            problem = problem.__cause__ or problem.__context__
        if not problem:
            sys.exit(print("It is another failure than the one that this script shows.") or 2)
        fault = True
"""
#: For a runtime that reports on standard error what is wrong: before the cases, before each case, and what was printed.
DIAGNOSED: Final = (
    (
        "fault = False\n",
        "fault = False\nlog = tempfile.TemporaryFile()\nos.dup2(log.fileno(), 2)  # there it reports\n",
    ),
    ("    try:\n", "    log.seek(0), log.truncate()\n    try:\n"),
    ("as problem:\n", 'as problem:\n        printed = log.seek(0) or log.read().decode(errors="replace")\n'),
    ("str(problem)[-2000:])", "str(problem)[-2000:], printed[-2000:])"),
    ("in str(problem))", "in str(problem) + printed)"),
)
_CHILD: Final = """
if sys.argv[1:]:  # one case on the platform, in a process of its own
    Model, fresh = CASES[sys.argv[1]]
    RUN
    sys.exit()
fault = False
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", Model().eval()(*fresh()), flush=True)
"""
MAIN_CRASHES: Final = f"""{_CHILD}\
    status = subprocess.run([sys.executable, __file__, name], timeout=LIMIT_S).returncode
    ended = signal.Signals(-status).name if status < 0 else ""
    print(f"{{name}}: PLATFORM", f"ends with {{ended}}" if ended else "fails in another way" if status else "runs it")
    if status and not (ended and SIGNAL in ("", ended)):
        sys.exit(print("Another fault than the one that this script shows.") or 2)
    fault |= bool(status)
"""
MAIN_HANGS: Final = f"""{_CHILD}\
    running = subprocess.Popen([sys.executable, __file__, name], start_new_session=True)
    try:
        if running.wait(LIMIT_S):
            sys.exit(print("Another fault than the one that this script shows.") or 2)
        print(f"{{name}}: PLATFORM runs it")
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        print(f"{{name}}: PLATFORM does not end within {{LIMIT_S}} s")
        fault = True
"""
MAIN_VERSION: Final = """
# A result shows the fault that is as far from the expected one as half of the way to the faulty one.
fault = False
for Model, fresh in CASES.values():
    for number, (a, e, f) in enumerate(zip(flat(RUN), EXPECTED, FAULTY, strict=True)):
        print(f"output {number}:")
        for side, value in {"PLATFORM": a, "expected": e, "faulty": f}.items():
            print(f"  {side}:", value.dtype, value)
        if (a.dtype, a.shape) != (e.dtype, e.shape):
            fault = True
        elif f.shape == e.shape:
            way, error = (max(off(value, e).flatten().tolist(), default=0.0) for value in (f, a))
            fault |= way > 0 and error >= way / 2
"""
END: Final = 'sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))'
