"""The Python interpreter of a jail: runs cells until its connection is closed.

`prepare` does what is allowed before any tenant's data arrives: imports, and a first use of what is
slow the first time. `serve` runs inside the jail. The process may be forked between the two, so
`prepare` must not leave any secret in memory.
"""
import builtins
import contextlib
import gc
import importlib
import io
import os
import struct
import sys

import _signal as signal  # without the enums around it, which cost more than the call

from sandglass import cell, display, figures, magic, notebook, packages, wire


WARM = """
import math
print(math.pi, file=__import__("io").StringIO())
x = [1, 2]
def f(a): return {"b": a}
f(x)
"""
WARM_PANDAS = """
import numpy as np, pandas as pd
d = pd.DataFrame({"a": [1, 2], "b": np.arange(2.0)})
repr(d.describe()), d._repr_html_(), float(d.b.sum())
"""


def go_through(*cells):
    """What is slow the first time is done once, for nobody, and leaves nothing behind."""
    nobody = os.open("/dev/null", os.O_RDWR)
    kernel.channel.fd = nobody
    kernel.channel.send(wire.READY, 0, [""])
    for code in cells:
        kernel.run(code)
    os.close(nobody)
    kernel.reset()


def warm():
    go_through(WARM, WARM_PANDAS if "pandas" in sys.modules else "")


imported = []  # as told
others = {}  # of all packages that are imported and may be others in a jail, and of Python: the file and its stamp


def stamp(file):
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def note_others():
    for name, module in {**sys.modules, "": os}.items():
        file = getattr(module, "__file__", None) or ""
        if name in ("", *imported) or "." not in name and ("/dist-packages/" in file or "/site-packages/" in file):
            others[name] = file, stamp(file)


def prepare(names, is_zygote):
    """Imports what it can; gives the names that are not there."""
    global kernel
    missing = []
    kernel = Kernel()
    for name in filter(None, names.split(",")):
        try:
            __import__(name)
        except Exception:
            missing.append(name)
        if name == "matplotlib" and name in sys.modules:
            import matplotlib.pyplot
    open_streams()
    sys.argv = [""]
    imported[:] = {name.partition(".")[0] for name in names.split(",")} - {"", "json"}
    warm()
    note_others()
    if is_zygote:
        os.environ.clear()
    # What is there now stays: a collection that walked over it would copy it all in every fork.
    gc.collect()
    gc.freeze()
    return ",".join(missing).encode()


def reseed():
    """Every fork has randomness of its own; `random` sees to that itself."""
    if "numpy" in sys.modules:
        with contextlib.suppress(Exception):  # a sandbox's own may be anything of that name
            sys.modules["numpy"].random.seed([int.from_bytes(os.urandom(4), "little") for _ in range(8)])
    if "ssl" in sys.modules:
        # OpenSSL knows a fork by its process id, and that may be the same in two namespaces.
        sys.modules["ssl"].RAND_add(os.urandom(32), 32.0)
    if "multiprocessing.process" in sys.modules:
        # Drawn at import; who knows it may connect to the managers and listeners of this process.
        sys.modules["multiprocessing.process"].current_process().authkey = os.urandom(32)


def rehearse():
    """A fork that waits to be a kernel: most of its memory is its own when it is one."""
    awake(b"PATH=/usr/bin\0HOME=/home/sandbox\0LANG=C.UTF-8\0")
    os.environ.clear()
    given.clear()
    reseed()
    imports = "".join(f"import {name}\n" for name in imported if name in sys.modules)
    if "import numpy\n" in imports:
        imports += "numpy.arange(3).sum()\n"
    go_through(imports + "print(1)\nx = [1]\nlen(x)")


@contextlib.contextmanager
def environment(variables):
    """Variables of one run; what was there before comes back."""
    given = dict(item.split("=", 1) for item in variables.split("\0") if "=" in item)
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def no_input(prompt=""):
    raise EOFError("input() has nobody to ask: give the value in the code, or as a file")


class Kernel:
    def __init__(self):
        self.channel = wire.Channel(-1)
        builtins.input = no_input
        builtins.display = self.display
        figures.install(self.display)
        self.notebook = notebook.Finder(self)
        sys.meta_path.insert(0, self.notebook)
        builtins.get_ipython = self.notebook.get_ipython
        self.kept = None  # what is shown, while a magic collects it
        self.cwd = None  # the working directory, while this process is not in it
        self.settle()
        self.reset()

    def settle(self):
        """This process is the kernel; copies that code makes of it are not. Its line is nobody else's."""
        self.pid = os.getpid()
        self.channel = wire.Channel(self.channel.fd)

    def reset(self):
        self.namespace = {"__name__": "__main__", "__builtins__": builtins, "__doc__": None}
        main = type(sys)("__main__")
        main.__dict__.update(self.namespace)
        self.namespace = main.__dict__
        sys.modules["__main__"] = main
        self.runner = cell.Runner(self.namespace)
        self.magics = magic.Magics(self)
        self.count = 0
        self.ident = 0
        self.name = "<cell 0>"
        cell.forget()

    def display(self, *values, raw=False, display_id=None, **options):
        for value in values:
            self.show(value, 0, raw)
        return notebook.Handle(self.display, display_id) if display_id else None

    @contextlib.contextmanager
    def keeping(self):
        """What is shown meanwhile is kept instead."""
        before, self.kept = self.kept, []
        try:
            yield self.kept
        finally:
            self.kept = before

    def show(self, value, flags, raw=False):
        is_bundle = raw and isinstance(value, dict)
        found = display.as_bytes(value) if is_bundle else display.bundle(value, figures.extra)
        if self.kept is not None:
            self.kept.append(found)
            return
        if os.getpid() != self.pid:  # a child of the code's: the line is not its own
            print(found.get("text/plain", b"").decode())
            return
        fields = [len(found)]
        for mime, data in found.items():
            fields += mime, data
        flush()
        self.channel.send(wire.DISPLAY, self.ident, fields, flags)

    def execute(self, code):
        self.name = f"<cell {self.count}>"
        cell.remember(self.name, code)
        if head := magic.HEAD.match(code):
            value = self.magics.cell(head[1], head[2], code[head.end():], 1 + head[0].count("\n"))
            return value is not None, value
        tree, code = self.magics.parse(code, self.name)
        return self.runner.run(tree, self.name, code)

    def run(self, code):
        """One cell to its end; true when it did not fail."""
        self.count += 1
        if any(stream is None or getattr(stream, "closed", False) for stream in streams()):
            open_streams()  # code has closed them, or lost them
        packages.look()
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            has_value, value = self.execute(code)
            self.end_if_child()
            if has_value and value is not None:
                self.namespace["_"] = value
                self.show(value, wire.MAIN)
            figures.flush(self.display)
            return True
        except BaseException as error:  # also SystemExit and KeyboardInterrupt: the kernel stays
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            self.end_if_child(error)
            self.report(error)
            return False
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    def end_if_child(self, error=None):
        """Code that forks does not always leave in the child: it ends with its cell, as at the end of a
        script, instead of taking the next one from the line of its parent."""
        if os.getpid() == self.pid:
            return
        status = 0 if error is None else 1
        if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
            status = error.code or 0
        elif error is not None:
            sys.stderr.write(cell.describe(error)[2])
        flush()
        os._exit(status & 255)

    def report(self, error):
        name, message, lines = cell.describe(error)
        module = cell.missing_module(error)
        if module:
            importlib.invalidate_caches()  # it may be there when the cell is run again
            self.notebook.forget()
        self.channel.send(wire.ERROR, self.ident, [name, message, lines, module])
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")

    def give_copy(self, limit):
        """Saves the interpreter's memory to a file. A process that is restored from it returns from the same call."""
        done = copy(struct.pack("<Qi", limit << 20, self.channel.fd))
        if done[:1] != b"=":
            self.channel.send(wire.COPIED, 0, [int(done == b"+"), done[1:]])
            return
        self.settle()
        exchange_environment(done[1:])
        reseed()
        self.runner.loop = None  # what it waited with is not open any more
        self.channel.send(wire.READY, 0, [sys.version.split()[0]], wire.LIVE)

    def quiesce(self):
        """Leaves the working directory, so that the root below this process can be exchanged. True when
        it did: not with a thread, which could use a relative path, nor where there is no way back."""
        try:
            if len(sys._current_frames()) > 1:
                return False
            cwd = os.getcwd()
            if not os.path.samestat(os.stat(cwd), os.stat(".")) or not os.access(cwd, os.X_OK):
                return False
            os.chdir("/")
            self.cwd = cwd
            return True
        except Exception:  # it was deleted or renamed, or code has made something else of `os`
            return False

    def go_back(self):
        """To the working directory that `quiesce` left, or where a new kernel begins if it is gone."""
        cwd, self.cwd = self.cwd, None
        for path in (cwd, "/workspace") if cwd else ():
            with contextlib.suppress(OSError):
                os.chdir(path)
                return

    def serve(self):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.channel.send(wire.READY, 0, [sys.version.split()[0]])
        while True:
            try:
                kind, self.ident, fields = self.channel.receive()
            except EOFError:
                return
            self.go_back()
            if kind == wire.QUIESCE and fields.number():
                self.channel.send(wire.QUIESCED, 0, [int(self.quiesce())])
            if kind == wire.ENV:
                take_environment(fields.text())
            if kind == wire.COPY:
                self.give_copy(fields.number())
            if kind != wire.RUN:
                continue
            code, _, variables = fields.text(), fields.text(), fields.text()
            if variables:
                with environment(variables):
                    done = self.run(code)
            else:
                done = self.run(code)
            flush()
            self.channel.send(wire.DONE, self.ident, [self.count, int(done)])


class Errors(io.TextIOWrapper):
    """Standard error: at once, and behind what was printed before, be it the beginning of a line."""

    def write(self, text):
        if not self.before.closed:
            self.before.flush()
        count = super().write(text)
        self.flush()
        return count


def open_streams():
    """Unbuffered below, line-buffered above: printed lines are sent at once."""
    for fd, name, kind in ((1, "stdout", io.TextIOWrapper), (2, "stderr", Errors)):
        raw = open(fd, "wb", buffering=0, closefd=False)
        stream = kind(io.BufferedWriter(raw, 1 << 16), "utf-8", errors="backslashreplace", line_buffering=True)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.stderr.before = sys.stdout


def streams():
    return [getattr(sys, name, None) for name in ("stdout", "stderr")]


def flush():
    for stream in streams():
        try:
            stream.flush()
        except Exception:
            pass  # code has made something else of it


AHEAD = "SANDGLASS_KERNEL_AHEAD"  # it is made before it is known for whom


def serve(fd):
    if os.environ.pop(AHEAD, None):
        warm()
    reseed()
    sys.path.insert(0, "")
    packages.find()
    kernel.channel.fd = fd
    kernel.serve()


def take_environment(variables):
    for item in variables.split("\0"):
        name, _, value = item.partition("=")
        if name:
            os.environ[name] = value
            given[os.fsencode(name)] = os.fsencode(value)


given = {}  # the environment as it came with the kernel, not what code has made of it


def exchange_environment(env):
    """What another kernel's jail has given to it differently from what this memory knows."""
    before = dict(given)
    given.clear()
    for pair in env.split(b"\0")[:-1]:
        name, _, value = pair.partition(b"=")
        if name and before.get(name) != value:
            os.environb[name] = value
        given[name] = value
    for name in before.keys() - given.keys():
        os.environb.pop(name, None)


def awake(env):
    """A fork takes the environment of its jail. Gives the name of a package that is imported already
    though the jail has one of its own: then a fork is the wrong kernel for it."""
    kernel.settle()
    for pair in env.split(b"\0")[:-1]:
        name, _, value = pair.partition(b"=")
        if name:
            os.environb[name] = given[name] = value
    if "threading" in sys.modules:
        sys.modules["threading"].main_thread()._set_native_id()
    for name in packages.names():
        if name in others:
            return name.encode()
    for name, (file, then) in others.items():
        if stamp(file) != then:
            return name.encode() or b"python3"
    return b""
