"""A Jupyter kernel as its own client sees it: one line of microseconds for each sample."""
import time

from jupyter_client.manager import start_new_kernel

FIRST = "import numpy, pandas\nprint(numpy.arange(3).sum())"


def run(client, code, until):
    asked = client.execute(code)
    while True:
        message = client.get_iopub_msg(timeout=60)
        if message["parent_header"].get("msg_id") != asked:
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == until or (until == "idle" and kind == "status" and content["execution_state"] == "idle"):
            return


for sample in range(3):
    begin = time.perf_counter()
    manager, client = start_new_kernel(kernel_name="python3")
    run(client, FIRST, "stream")
    print("start", (time.perf_counter() - begin) * 1e6)
    if sample == 2:
        run(client, "1", "idle")
        for _ in range(200):
            begin = time.perf_counter()
            run(client, "1 + 1", "idle")
            print("next", (time.perf_counter() - begin) * 1e6)
    client.stop_channels()
    manager.shutdown_kernel(now=True)
