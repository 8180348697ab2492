"""A Jupyter kernel for JavaScript: runs cells in one Node process, through Node's own REPL."""

import asyncio
import json
import os
import signal

from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "repl.cjs")
LONGEST_LINE = 256 * 1024 * 1024


class JavaScriptKernel(Kernel):
    implementation = "agentpod-javascript"
    implementation_version = "1"
    banner = "JavaScript"
    language_info = {"name": "javascript", "mimetype": "text/javascript", "file_extension": ".js"}
    node = None

    # Node handles an interrupt; this process only waits for its answer.
    def pre_handler_hook(self):
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def post_handler_hook(self):
        pass

    async def _start(self):
        """Node reads cells on descriptor 3 and answers on descriptor 4; its output stays the program's own."""
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        self.node = await asyncio.create_subprocess_exec(
            "node",
            "--no-warnings",
            PROGRAM,
            str(theirs_in),
            str(theirs_out),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=(theirs_in, theirs_out),
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        os.close(theirs_in)
        os.close(theirs_out)
        loop = asyncio.get_running_loop()
        self.answers = asyncio.StreamReader(limit=LONGEST_LINE)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(self.answers), os.fdopen(ours_in, "rb"))
        self.cells = os.fdopen(ours_out, "wb", buffering=0)
        self.readers = [
            asyncio.ensure_future(self._copy(self.node.stdout, "stdout")),
            asyncio.ensure_future(self._copy(self.node.stderr, "stderr")),
        ]

    async def _copy(self, stream, name):
        while data := await stream.read(65536):
            self.send_response(self.iopub_socket, "stream", {"name": name, "text": data.decode("utf8", "replace")})

    async def do_execute(self, code, silent, store_history=True, user_expressions=None, allow_stdin=False, **_):
        if self.node is None or self.node.returncode is not None:
            await self._start()
        self.cells.write(json.dumps({"code": code}).encode() + b"\n")
        reply = {"status": "ok", "execution_count": self.execution_count, "payload": [], "user_expressions": {}}
        while True:
            line = await self.answers.readline()
            answer = json.loads(line) if line else {"error": {"name": "Error", "value": "Node ended", "stack": ""}}
            # Output that the cell wrote before its answer is on its way through another pipe.
            await asyncio.sleep(0.02)
            if "display" in answer:
                self._show("display_data", answer["display"], silent)
                continue
            if "error" in answer:
                error = answer["error"]
                content = {"ename": error["name"], "evalue": error["value"], "traceback": [error["stack"]]}
                if not silent:
                    self.send_response(self.iopub_socket, "error", content)
                return {**reply, "status": "error", **content}
            if answer.get("result") is not None:
                self._show("execute_result", answer["result"], silent)
            return reply

    def _show(self, kind, data, silent):
        if silent:
            return
        content = {"data": data, "metadata": {}}
        if kind == "execute_result":
            content["execution_count"] = self.execution_count
        self.send_response(self.iopub_socket, kind, content)

    async def do_shutdown(self, restart):
        if self.node is not None and self.node.returncode is None:
            self.node.kill()
        return {"status": "ok", "restart": restart}


if __name__ == "__main__":
    IPKernelApp.launch_instance(kernel_class=JavaScriptKernel)
