"""The magics of notebooks that people type without thinking: !cmd, %name, %%name, name?.

Code that is Python is never touched: only the lines at which it stops being Python are looked at.
"""
import ast
import contextlib
import importlib
import inspect
import io
import os
import re
import shlex
import subprocess
import sys
import time
import timeit

from sandglass import figures, notebook

HEAD = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*%%(\w+)[ \t]*([^\n]*)(?:\n|$)")
LINE = re.compile(r"(\s*)(?:([A-Za-z_][\w, ]*?)\s*=\s*)?(?:([!%])|(?=pip3? \w))(.+)")
HELP = re.compile(r"(\s*)(?:\?{1,2}\s*([\w.]+)|([\w.]+)\?{1,2})\s*$")
PIP = re.compile(r"(?:\S*python3? -m )?pip3? (?=install\b)")
CALL = "__sandglass_magic__"

# Magics that are one thing for each name.
COMMANDS = ("cat", "cp", "ls", "mkdir", "mv", "rm", "rmdir")
PROGRAMS = {"bash": "/bin/bash", "sh": "/bin/sh", "python": sys.executable, "python3": sys.executable}
KINDS = {"html": "HTML", "markdown": "Markdown", "latex": "Latex", "svg": "SVG", "javascript": "Javascript",
         "js": "Javascript"}
IGNORED = ("autoreload", "config", "load_ext", "reload_ext")


class UsageError(Exception):
    __module__ = "builtins"  # tracebacks then name it without a path


def shell(command, program="/bin/sh"):
    """Runs it with our own standard streams; its status stays in `_exit_code`."""
    sys.stdout.flush()
    try:
        return subprocess.call([program, "-c", command], stdin=subprocess.DEVNULL)
    except KeyboardInterrupt:
        raise KeyboardInterrupt from None  # without the internal traceback


def lines_of(command):
    done = subprocess.run(["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    return done.stdout.decode("utf-8", "replace").splitlines()


def expand(text, namespace):
    """{name} and $name of the cell's variables, as notebooks have it; anything else stays."""
    def value(match):
        name = match.group(1) or match.group(2)
        try:
            return str(eval(name, namespace)) if match.group(1) else str(namespace[name])
        except Exception:
            return match.group(0)
    return re.sub(r"\{([^{}]+)\}|\$([A-Za-z_]\w*)", value, text)


class Captured:
    """What %%capture has kept."""

    def __init__(self, out, err, outputs, show):
        self.stdout, self.stderr, self.outputs, self._show = out, err, outputs, show

    def show(self):
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)
        for bundle in self.outputs:
            self._show(bundle, raw=True)

    __call__ = show

    def __str__(self):
        return self.stdout


class Magics:
    def __init__(self, kernel):
        self.kernel = kernel
        self.namespace = kernel.namespace
        self.namespace[CALL] = self.call
        self.line = 1  # at which the code of the magic begins in its cell

    def parse(self, code, name):
        """Python, where need be with its magics as calls. Lines keep their numbers."""
        lines = code.split("\n")
        while True:
            code = "\n".join(lines)
            try:
                return ast.parse(code, name, "exec"), code
            except SyntaxError as error:
                if not self.rewrite(lines, (error.lineno or 0) - 1):
                    raise

    def rewrite(self, lines, at):
        """Rewrites the magic at that line as a call; false if the line has no magic."""
        text, end = lines[at] if 0 <= at < len(lines) else "", at + 1
        while text.endswith("\\") and end < len(lines):
            text, end = text[:-1] + lines[end].lstrip(), end + 1
        if match := LINE.fullmatch(text):
            indent, target, sign, rest = match.groups()
            call = f"{CALL}({sign or '%'!r}, {rest.strip()!r}, {target is not None})"
            text = f"{indent}{target} = {call}" if target else indent + call
        elif match := HELP.fullmatch(text):
            text = f"{match[1]}{CALL}('?', {match[2] or match[3]!r}, False)"
        else:
            return False
        lines[at:end] = [text] + [""] * (end - at - 1)
        return True

    def call(self, sign, rest, wanted):
        self.line = sys._getframe(1).f_lineno
        if sign == "?":
            return self._explain(rest)
        if sign == "!":
            return self._command(expand(rest.lstrip("!"), self.namespace), wanted)
        name, _, rest = rest.strip().partition(" ")
        method = getattr(self, "line_" + name, None)
        if name in COMMANDS:
            return self._command(f"{name} {expand(rest, self.namespace)}", wanted)
        if name in IGNORED:
            return print(f"%{name} does nothing here", file=sys.stderr)
        if method is None:
            there = sorted([each[5:] for each in dir(self) if each.startswith("line_")] + list(COMMANDS))
            raise UsageError(f"Line magic function `%{name}` not found. There are: {' '.join(there)}")
        return method(rest.strip())

    def cell(self, name, rest, body, line=1):
        """`line`: at which the body begins."""
        self.line = line
        method = getattr(self, "cell_" + name, None)
        if name in PROGRAMS:
            return self._program(name, body)
        if name in KINDS:
            return self.kernel.display(notebook.kinds[KINDS[name]](body))
        if method is None:
            there = sorted([each[5:] for each in dir(self) if each.startswith("cell_")] + [*PROGRAMS, *KINDS])
            raise UsageError(f"Cell magic `%%{name}` not found. There are: {' '.join(there)}")
        return method(rest.strip(), body)

    def _run(self, code):
        """Code of the cell that runs, at its place there, so that tracebacks quote its lines."""
        tree, code = self.parse("\n" * (self.line - 1) + code, self.kernel.name)
        return self.kernel.runner.run(tree, self.kernel.name, code)[1]

    def _command(self, command, wanted):
        if wanted:
            return lines_of(command)
        if PIP.match(command):
            return self.line_pip(PIP.sub("", command, 1))
        self.namespace["_exit_code"] = shell(command)
        return None

    def _program(self, name, body):
        self.namespace["_exit_code"] = status = shell(body, PROGRAMS[name])
        if status != 0:
            raise subprocess.CalledProcessError(status, name)

    def _explain(self, name):
        value = eval(name, self.namespace)
        with contextlib.suppress(TypeError, ValueError):
            print(f"Signature: {name}{inspect.signature(value)}")
        print(f"Type: {type(value).__name__}\n{inspect.getdoc(value) or 'no documentation'}")

    def line_cd(self, rest):
        words = shlex.split(expand(rest, self.namespace))
        place = next((word for word in words if word != "-q"), "~")
        before = os.getcwd()
        os.chdir(os.path.expanduser(self.namespace.get("_before_cd", before) if place == "-" else place))
        self.namespace["_before_cd"] = before
        if "-q" not in words:
            print(os.getcwd())

    def line_pwd(self, rest):
        return os.getcwd()

    def line_env(self, rest):
        if not rest:
            return dict(os.environ)
        name, equals, value = rest.partition("=")
        if equals:
            os.environ[name.strip()] = value = expand(value.strip(), self.namespace)
            return print(f"env: {name.strip()}={value}")
        if name not in os.environ:
            raise UsageError(f"Environment does not have key: {name}")
        return os.environ[name]

    def line_pip(self, rest):
        """As in a shell of the sandbox: its environment says where packages go."""
        rest = expand(rest, self.namespace)
        status = self.namespace["_exit_code"] = shell(f"{shlex.quote(sys.executable)} -m pip {rest}")
        importlib.invalidate_caches()
        if status != 0:
            raise subprocess.CalledProcessError(status, "pip")

    line_pip3 = line_pip

    def line_run(self, rest):
        """A file as a program; what it has defined stays."""
        import runpy
        before, sys.argv = sys.argv, shlex.split(expand(rest, self.namespace))
        try:
            if not sys.argv:
                raise UsageError("%run needs the name of a file")
            found = runpy.run_path(sys.argv[0], run_name="__main__")
        finally:
            sys.argv = before
        self.namespace.update((name, value) for name, value in found.items() if not name.startswith("__"))

    def _variables(self):
        return {name: value for name, value in self.namespace.items() if not name.startswith("_")}

    def line_who(self, rest):
        print("  ".join(self._variables()))

    def line_whos(self, rest):
        for name, value in self._variables().items():
            print(f"{name:16} {type(value).__name__:16} {repr(value)[:60]}")

    def line_reset(self, rest):
        for name in self._variables():
            del self.namespace[name]

    def line_matplotlib(self, rest):
        """Figures are always shown inline."""

    def line_time(self, rest):
        return self._timed(rest)

    def cell_time(self, rest, body):
        return self._timed(body)

    def _timed(self, code):
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            return self._run(code)
        finally:
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            print(f"CPU times: total: {cpu * 1000:.3g} ms\nWall time: {wall * 1000:.3g} ms")

    def line_timeit(self, rest):
        self._repeated(*self._repeats(rest))

    def cell_timeit(self, rest, body):
        options, setup = self._repeats(rest)
        self._repeated(options, body, setup or "pass")

    def _repeats(self, rest):
        options = {}
        while found := re.match(r"-([nr])\s*(\d+)(?:\s+|$)", rest):
            options[found[1]] = max(1, int(found[2]))
            rest = rest[found.end():]
        return options, rest

    def _repeated(self, options, code, setup="pass"):
        timer = timeit.Timer(code, setup, globals=self.namespace)
        count = options.get("n") or timer.autorange()[0]
        repeats = options.get("r", 5)
        best = min(timer.repeat(repeats, count)) / count
        print(f"{best * 1e6:.3g} us per loop (best of {repeats}, {count} loops each)")

    def cell_capture(self, rest, body):
        out, err = io.StringIO(), io.StringIO()
        name = next((word for word in rest.split() if not word.startswith("-")), None)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), self.kernel.keeping() as kept:
            value = self._run(body)
            if value is not None:
                self.kernel.display(value)
            figures.flush(self.kernel.display)
        if name:
            self.namespace[name] = Captured(out.getvalue(), err.getvalue(), kept, self.kernel.display)

    def cell_writefile(self, rest, body):
        words = shlex.split(expand(rest, self.namespace))
        appends = words[:1] in (["-a"], ["--append"])
        if len(words) != 1 + appends:
            raise UsageError("%%writefile needs the name of a file: %%writefile [-a] NAME")
        existed = os.path.exists(words[-1])
        with open(words[-1], "a" if appends else "w", encoding="utf-8") as file:
            file.write(body if body.endswith("\n") else body + "\n")
        print(f"{'Appending to' if appends else 'Overwriting' if existed else 'Writing'} {words[-1]}")
