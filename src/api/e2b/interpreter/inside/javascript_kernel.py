"""A Jupyter kernel for JavaScript: runs cells in one Node process, through Node's own REPL."""

import asyncio
import codecs
import json
import os
import signal
import subprocess

from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "repl.cjs")
CHUNK = 65536
# Output of timers between two cells waits for the next one. Node waits when there is more.
MOST_WAITING = 1024 * 1024
LONGEST_ANSWER = 256 * 1024 * 1024


class Output:
    """Output of Node, read when it arrives and sent by the cell that runs."""

    def __init__(self, name, on_news):
        self.name = name
        self.on_news = on_news
        self.decoder = codecs.getincrementaldecoder("utf8")("replace")
        self.parts = []
        self.size = 0
        self.fd, self.other = os.pipe()
        os.set_blocking(self.fd, False)
        self.is_reading = False

    def listen(self):
        if not self.is_reading and self.fd is not None:
            asyncio.get_running_loop().add_reader(self.fd, self.read)
            self.is_reading = True

    def pause(self):
        if self.is_reading:
            asyncio.get_running_loop().remove_reader(self.fd)
            self.is_reading = False

    def read(self):
        """Reads one part. False if there is none."""
        try:
            data = os.read(self.fd, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self.close()
            return False
        self.parts.append(self.decoder.decode(data))
        self.size += len(data)
        if self.size > MOST_WAITING:
            self.pause()
        self.on_news()
        return True

    def take(self):
        text = "".join(self.parts)
        self.parts, self.size = [], 0
        self.listen()
        return text

    def close(self):
        self.pause()
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


class Node:
    """A Node process. It reads cells on one descriptor and answers on another; its output is the program's."""

    def __init__(self):
        self.news = asyncio.Event()
        self.outputs = [Output("stdout", self.news.set), Output("stderr", self.news.set)]
        self.answer_part = b""
        self.answers = []
        self.has_ended = False
        self.answer_fd, theirs_out = os.pipe()
        theirs_in, self.cell_fd = os.pipe()
        os.set_blocking(self.answer_fd, False)
        try:
            self.process = subprocess.Popen(
                ["node", "--no-warnings", PROGRAM, str(theirs_in), str(theirs_out)],
                stdin=subprocess.DEVNULL,
                stdout=self.outputs[0].other,
                stderr=self.outputs[1].other,
                pass_fds=(theirs_in, theirs_out),
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
        finally:
            for fd in (theirs_in, theirs_out, *(one.other for one in self.outputs)):
                os.close(fd)
        asyncio.get_running_loop().add_reader(self.answer_fd, self.read_answers)
        for one in self.outputs:
            one.listen()

    def read_answers(self):
        try:
            data = os.read(self.answer_fd, CHUNK)
        except BlockingIOError:
            return
        self.answer_part += data
        if not data or len(self.answer_part) > LONGEST_ANSWER:
            self.end()
        *whole, self.answer_part = self.answer_part.split(b"\n") if b"\n" in data else [self.answer_part]
        self.answers += [json.loads(line) for line in whole]
        self.news.set()

    async def send(self, code):
        data = json.dumps({"code": code}).encode() + b"\n"
        # Node may be busy with a callback; the pipe of a long cell fills up until it reads.
        await asyncio.get_running_loop().run_in_executor(None, self.write, data)

    def write(self, data):
        try:
            while data:
                data = data[os.write(self.cell_fd, data) :]
        except OSError:
            self.has_ended = True
            self.news.set()

    def drain(self):
        """Reads what Node wrote before its answer."""
        for one in self.outputs:
            while one.fd is not None and one.size <= MOST_WAITING and one.read():
                pass

    def end(self):
        if self.has_ended:
            return
        self.has_ended = True
        self.process.kill()
        self.process.wait()
        self.drain()
        loop = asyncio.get_running_loop()
        loop.remove_reader(self.answer_fd)
        for fd in (self.answer_fd, self.cell_fd):
            os.close(fd)
        for one in self.outputs:
            one.close()
        self.news.set()


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

    async def do_execute(self, code, silent, store_history=True, user_expressions=None, allow_stdin=False, **_):
        if self.node is None or self.node.has_ended:
            self.node = Node()
        node = self.node
        reply = {"status": "ok", "execution_count": self.execution_count, "payload": [], "user_expressions": {}}
        await node.send(code)
        while True:
            # The output of a cell is sent from here, because a message belongs to the cell whose task sends it.
            self._send_output(node)
            if not node.answers and not node.has_ended:
                await node.news.wait()
                node.news.clear()
                continue
            node.drain()
            self._send_output(node)
            if node.answers:
                answer = node.answers.pop(0)
            else:
                answer = {"error": {"name": "Error", "value": "Node ended", "stack": "Node ended"}}
            if "display" in answer:
                self._show("display_data", answer["display"], silent)
            elif "error" in answer:
                error = answer["error"]
                content = {"ename": error["name"], "evalue": error["value"], "traceback": [error["stack"]]}
                if not silent:
                    self.send_response(self.iopub_socket, "error", content)
                return {**reply, "status": "error", **content}
            else:
                if answer.get("result") is not None:
                    self._show("execute_result", answer["result"], silent)
                return reply

    def _send_output(self, node):
        for one in node.outputs:
            while text := one.take():
                self.send_response(self.iopub_socket, "stream", {"name": one.name, "text": text})

    def _show(self, kind, data, silent):
        if silent:
            return
        content = {"data": data, "metadata": {}}
        if kind == "execute_result":
            content["execution_count"] = self.execution_count
        self.send_response(self.iopub_socket, kind, content)

    async def do_shutdown(self, restart):
        if self.node is not None:
            self.node.end()
        return {"status": "ok", "restart": restart}


if __name__ == "__main__":
    IPKernelApp.launch_instance(kernel_class=JavaScriptKernel)
