"""The few magics of notebooks that people type without thinking: !cmd, %name, %%name.

Code that is Python is never touched: only when a cell does not parse are its lines looked at.
"""
import ast
import importlib
import os
import re
import shlex
import subprocess
import sys
import time
import timeit

LINE = re.compile(r"^(\s*)(?:([A-Za-z_][\w, ]*?)\s*=\s*)?([!%])(.+)$")
CALL = "__sandglass_magic__"
PACKAGES = "/workspace/.sandglass/python"  # as runtime/packages.h has it


class UsageError(Exception):
    __module__ = "builtins"  # tracebacks then name it without a path


def shell(command, program="/bin/sh"):
    """Runs it with our own standard streams; its status stays in `_exit_code`."""
    sys.stdout.flush()
    return subprocess.call([program, "-c", command], stdin=subprocess.DEVNULL)


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


class Magics:
    def __init__(self, runner):
        self.runner = runner
        self.namespace = runner.namespace
        self.namespace[CALL] = self.call

    # A cell whose first line starts with %%.
    def cell(self, code):
        head, _, body = code.partition("\n")
        name, _, rest = head[2:].strip().partition(" ")
        method = getattr(self, "cell_" + name, None)
        if method is None:
            raise UsageError(f"Cell magic `%%{name}` not found.")
        return method(rest.strip(), body)

    def rewrite(self, code):
        """The cell with its magic lines as calls; line numbers stay."""
        out = []
        for line in code.split("\n"):
            match = LINE.match(line)
            if match is None:
                out.append(line)
                continue
            indent, target, sign, rest = match.groups()
            call = f"{CALL}({sign!r}, {rest.strip()!r}, {target is not None})"
            out.append(f"{indent}{target} = {call}" if target else indent + call)
        return "\n".join(out)

    def call(self, sign, rest, wanted):
        if sign == "!":
            command = expand(rest.lstrip("!"), self.namespace)
            if wanted:
                return lines_of(command)
            self.namespace["_exit_code"] = shell(command)
            return None
        name, _, rest = rest.partition(" ")
        method = getattr(self, "line_" + name, None)
        if method is None:
            raise UsageError(f"Line magic function `%{name}` not found.")
        return method(rest.strip())

    def _run(self, code):
        tree = ast.parse(code, "<magic>", "exec")
        return self.runner.run(tree, "<magic>", code)[1]

    def line_cd(self, rest):
        words = shlex.split(rest)
        quiet = "-q" in words
        words = [word for word in words if word != "-q"]
        os.chdir(os.path.expanduser(words[0] if words else "~"))
        if not quiet:
            print(os.getcwd())

    def line_pwd(self, rest):
        return os.getcwd()

    def line_ls(self, rest):
        shell("ls " + rest)

    def line_env(self, rest):
        if not rest:
            return dict(os.environ)
        name, equals, value = rest.partition("=")
        if equals:
            os.environ[name.strip()] = value.strip()
            return None
        if name not in os.environ:
            raise UsageError(f"Environment does not have key: {name}")
        return os.environ[name]

    def line_pip(self, rest):
        """Installs where the kernel looks: the system's own place is not ours to write."""
        words = rest.split(None, 1)
        if words and words[0] == "install" and not re.search(r"(^|\s)(--target|-t|--user|--prefix|--root)\b", rest):
            rest = f"install --target {PACKAGES} --upgrade {words[1] if len(words) > 1 else ''}"
        status = self.namespace["_exit_code"] = shell(f"{shlex.quote(sys.executable)} -m pip {rest}")
        importlib.invalidate_caches()
        if status != 0:
            raise subprocess.CalledProcessError(status, "pip")

    def line_who(self, rest):
        names = [name for name in self.namespace if not name.startswith("_")]
        print("  ".join(names))

    def line_matplotlib(self, rest):
        """Figures are always shown inline."""

    def line_time(self, rest):
        return self._timed(rest)

    def line_timeit(self, rest):
        timer = timeit.Timer(rest, globals=self.namespace)
        count, _ = timer.autorange()
        best = min(timer.repeat(5, count)) / count
        print(f"{best * 1e6:.3g} us per loop (best of 5, {count} loops each)")

    def _timed(self, code):
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            return self._run(code)
        finally:
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            print(f"CPU times: total: {cpu * 1000:.3g} ms\nWall time: {wall * 1000:.3g} ms")

    def cell_time(self, rest, body):
        return self._timed(body)

    def cell_bash(self, rest, body):
        self.namespace["_exit_code"] = code = shell(body, "/bin/bash")
        if code != 0:
            raise subprocess.CalledProcessError(code, "bash")

    cell_sh = cell_bash

    def cell_writefile(self, rest, body):
        existed = os.path.exists(rest)
        with open(rest, "w", encoding="utf-8") as file:
            file.write(body if body.endswith("\n") else body + "\n")
        print(f"{'Overwriting' if existed else 'Writing'} {rest}")
