"""One cell of code: split into statements and the last expression, compiled, run.

Top-level `await` works; what a cell defines stays in the namespace it is given.
"""
import ast
import asyncio
import inspect
import io
import linecache
import tokenize
import traceback

FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
OWN = "<sandglass>"  # file name of the kernel's own code, which no traceback shows


def remember(name, code):
    """Tracebacks quote the lines of a cell though it is no file, and count on the end of the last."""
    linecache.cache[name] = (len(code), None, f"{code}\n".splitlines(True), name)


def forget():
    for name in [name for name in linecache.cache if name.startswith("<cell ")]:
        del linecache.cache[name]


def is_silenced(code):
    """A semicolon behind the last expression hides its value, as people know it."""
    last = ""
    if ";" not in code:
        return False
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER,
                                  tokenize.INDENT, tokenize.DEDENT):
                last = token.string
    except (tokenize.TokenError, IndentationError):
        return False
    return last == ";"


class Runner:
    def __init__(self, namespace):
        self.namespace = namespace
        self.loop = None

    def _wait(self, coroutine):
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
        return self.loop.run_until_complete(coroutine)

    def _evaluate(self, node, name):
        code = compile(node, name, "exec" if isinstance(node, ast.Module) else "eval", FLAGS, dont_inherit=True)
        value = eval(code, self.namespace)
        return self._wait(value) if code.co_flags & inspect.CO_COROUTINE else value

    def run(self, tree, name, code):
        """Gives (has_value, value) of the last expression."""
        last = tree.body[-1] if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        if last is None:
            self._evaluate(tree, name)
            return False, None
        tree.body.pop()
        if tree.body:
            self._evaluate(tree, name)
        value = self._evaluate(ast.Expression(last.value), name)
        return not is_silenced(code), value


def of_the_user(stack):
    """Frames from the first line of a cell on; what led there is the kernel's own."""
    frames = [frame for frame in stack if frame.filename != OWN and not frame.filename.startswith("<frozen ")]
    first = next((i for i, frame in enumerate(frames) if frame.filename.startswith("<cell ")), len(frames))
    return frames[first:]


def missing_module(error):
    """The module whose absence is behind an ImportError, also one that was told in other words."""
    while isinstance(error, ImportError):
        if isinstance(error, ModuleNotFoundError):
            return error.name or ""
        error = error.__cause__ or error.__context__
    return ""


def describe(error):
    """Name, message and a traceback that holds the user's lines only."""
    seen = set()
    report = traceback.TracebackException.from_exception(error, compact=True)
    queue = [report]
    while queue:
        part = queue.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        part.stack = traceback.StackSummary.from_list(of_the_user(part.stack))
        queue += [part.__cause__, part.__context__, *(getattr(part, "exceptions", None) or [])]
    has_no_status = type(error) is SystemExit and error.args == (None,)  # exit() is exit(0)
    try:
        message = "0" if has_no_status else str(error)
    except Exception:
        message = "<the message of this error could not be read>"
    try:
        parts = list(report.format())
        if has_no_status:
            parts[-1] = f"SystemExit: {message}\n"
        lines = "".join(parts)
    except Exception:
        lines = f"{type(error).__name__}: {message}\n"
    return type(error).__name__, message, lines
