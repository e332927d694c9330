"""Runs the cells of cells.txt in ipykernel and in our Python kernel and compares what comes back.

    compare_ipykernel.py KERNEL CELLS EXPECTED [--all]

Compared: the value's text and the set of its MIME types, what is displayed, output, and an error's
name and message. EXPECTED lists the cells that differ, each with the reason; a difference that is not
listed fails, and so does a listed one that is no more. Speaks TAP.
"""
import os
import queue
import re
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "src", "kernel", "cells"))
import wire  # noqa: E402  the frames, as the kernel writes them

OWN = "application/vnd.sandglass"
PREPARE = "%matplotlib inline\n"


class Ours:
    """The kernel's program on the other end of a socket pair; its output through pipes."""

    def __init__(self, program, cwd):
        near, far = socket.socketpair()
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        env = {"PATH": "/usr/bin:/bin", "HOME": cwd, "LANG": "C.UTF-8"}
        self.process = subprocess.Popen([program, "json"], stdin=far, stdout=self.out, stderr=self.err,
                                        cwd=cwd, env=env, start_new_session=True)
        far.close()
        self.line, self.channel, self.count = near, wire.Channel(near.fileno()), 0
        self.channel.receive()  # READY

    @staticmethod
    def _new(file, at):
        file.seek(at)
        return file.read().decode("utf-8", "replace")

    def run(self, code):
        marks = [os.fstat(file.fileno()).st_size for file in (self.out, self.err)]
        self.count += 1
        self.channel.send(wire.RUN, self.count, [code, "python", ""])
        found = {"value": None, "shown": [], "error": None}
        while True:
            kind, flags, fields = self.receive()
            if kind == wire.DISPLAY:
                bundle = {}
                for _ in range(fields.number()):
                    mime = fields.text()
                    bundle[mime] = fields.text()
                if flags & wire.MAIN:
                    found["value"] = bundle
                else:
                    found["shown"].append(bundle)
            elif kind == wire.ERROR:
                found["error"] = (fields.text(), fields.text())
            elif kind == wire.DONE:
                break
        found["out"], found["err"] = self._new(self.out, marks[0]), self._new(self.err, marks[1])
        return found

    def receive(self):
        size, kind, flags, _ = wire.HEAD.unpack(self.channel._read(wire.HEAD.size))
        return kind, flags, wire.Fields(self.channel._read(size))

    def close(self):
        self.line.close()
        self.process.wait(20)


class Theirs:
    def __init__(self, cwd):
        from jupyter_client.manager import KernelManager
        self.manager = KernelManager(kernel_name="python3", transport="ipc", ip=os.path.join(cwd, "line"))
        # Its own output would be read as ours.
        self.manager.start_kernel(cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=120)
        self.run(PREPARE, 0)

    def news(self, message, timeout):
        """The next word about this cell; None when none comes in time."""
        while True:
            try:
                news = self.client.get_iopub_msg(timeout=timeout)
            except queue.Empty:
                return None
            if news["parent_header"].get("msg_id") == message:
                return news["msg_type"], news["content"]

    def reply(self, message):
        while True:
            reply = self.client.get_shell_msg(timeout=120)
            if reply["parent_header"].get("msg_id") == message:
                return reply["content"]

    def run(self, code, least):
        """`least`: characters of output to wait for. Output passes through a thread of the kernel,
        which may tell it after the cell's end; so may the word of its failure, which is in the reply
        too."""
        found = {"value": None, "shown": [], "error": None, "out": "", "err": ""}
        # A kernel that stops on an error drops whatever it gets soon after: here that is the next cell.
        message = self.client.execute(code, allow_stdin=False, stop_on_error=False)
        reply = self.reply(message)
        assert reply["status"] in ("ok", "error"), (code, reply)
        is_over = False
        while True:
            has_output = len(found["out"]) + len(found["err"]) >= least
            has_failure = reply["status"] != "error" or found["error"] or found["err"]
            if is_over and has_output and has_failure:
                return found
            told = self.news(message, 10 if is_over else 120)
            if told is None and is_over:
                if not has_failure:
                    found["error"] = (reply["ename"], reply["evalue"])
                return found
            if told is None:
                raise TimeoutError(code)
            kind, content = told
            if kind == "stream":
                found["out" if content["name"] == "stdout" else "err"] += content["text"]
            elif kind == "execute_result":
                found["value"] = content["data"]
            elif kind == "display_data":
                found["shown"].append(content["data"])
            elif kind == "error":
                found["error"] = (content["ename"], content["evalue"])
            elif kind == "status" and content["execution_state"] == "idle":
                is_over = True

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def plain(text):
    """Without what differs in every run: addresses in memory, names of cells' files, pids."""
    text = re.sub(r"0x[0-9a-f]{6,}", "0x...", text or "")
    text = re.sub(r"<cell \d+>|<ipython-input-[^>]*>|/tmp/ipykernel_\d+/\d+\.py|\S*ipykernel_\d+\S*|\b\d{5,}\.py", "CELL", text)
    return text.rstrip("\n")


def types(bundle):
    """JSON beside every plain value, and chart data, are ours in addition."""
    return sorted(mime for mime in bundle if not mime.startswith(OWN) and mime != "application/json")


def differences(ours, theirs):
    found = []
    if (ours["value"] is None) != (theirs["value"] is None):
        found.append("has a value")
    elif ours["value"] is not None:
        if plain(ours["value"].get("text/plain")) != plain(theirs["value"].get("text/plain")):
            found.append("the value's text")
        if types(ours["value"]) != types(theirs["value"]):
            found.append("the value's types")
    if [types(each) for each in ours["shown"]] != [types(each) for each in theirs["shown"]]:
        found.append("what is shown")
    elif [plain(each.get("text/plain")) for each in ours["shown"]] != \
            [plain(each.get("text/plain")) for each in theirs["shown"]]:
        found.append("the text of what is shown")
    if plain(ours["out"]) != plain(theirs["out"]):
        found.append("standard output")
    if plain(ours["err"]) != plain(theirs["err"]):
        found.append("standard error")
    name = [(each["error"] or ("", ""))[0] for each in (ours, theirs)]
    message = [plain((each["error"] or ("", ""))[1]) for each in (ours, theirs)]
    if name[0] != name[1]:
        found.append("the error's name")
    if message[0] != message[1]:
        found.append("the error's message")
    return found


def read_cells(path):
    text = open(path, encoding="utf-8").read()
    return [cell.rstrip("\n") for cell in re.split(r"^# %%\n", text, flags=re.M)[1:]]


def read_expected(path):
    """Lines "N: what differs: why"; several differences with ", " between."""
    rows = {}
    for line in open(path, encoding="utf-8"):
        if line.strip() and not line.startswith("#"):
            number, what, why = line.rstrip("\n").split(": ", 2)
            rows[int(number)] = (what.split(", "), why)
    return rows


def main(program, cells, expected, *options):
    try:
        import ipykernel  # noqa: F401
        import jupyter_client  # noqa: F401
        import pandas, matplotlib  # noqa: F401,E401
    except ImportError as error:
        print(f"1..0 # SKIP {error}")
        return 0
    known = read_expected(expected)
    cells = read_cells(cells)
    print(f"1..{len(cells)}")
    failed = 0
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(HOME=home, JUPYTER_RUNTIME_DIR=home, IPYTHONDIR=os.path.join(home, "ipython"))
        places = [os.path.join(home, name) for name in ("ours", "theirs")]
        for place in places:
            os.mkdir(place)
        ours, theirs = Ours(os.path.abspath(program), places[0]), Theirs(places[1])
        try:
            for number, code in enumerate(cells, 1):
                one = ours.run(code)
                other = theirs.run(code, len(one["out"]) + len(one["err"]))
                found = differences(one, other)
                ok = found == known.get(number, ([], ""))[0]
                failed += not ok
                print(f"{'ok' if ok else 'not ok'} {number} - {code.splitlines()[0]!r}")
                if not ok or "--all" in options and found:
                    print(f"# differs: {', '.join(found)}")
                    for who, each in (("ours", one), ("ipykernel", other)):
                        print(f"#   {who}: " + repr({k: v for k, v in each.items() if v})[:1500])
        finally:
            ours.close()
            theirs.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
