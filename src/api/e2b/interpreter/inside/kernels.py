"""Kernels of Jupyter, and the events of executions in them."""

import asyncio
import collections
import contextlib
import queue
import time
import uuid

import zmq.asyncio
from jupyter_client.manager import AsyncKernelManager
from languages import Refused

START_SECONDS = 60
POLL_SECONDS = 0.5
# Output that a slow client has not read yet. More of it is left out.
MOST_BACKLOG = 256 * 1024 * 1024
# An execution whose reply came is over when nothing else came for this long.
QUIET_SECONDS = 5
# The kernel takes more memory than this server, so it ends first when there is none left.
OOM_SCORE = 500

# Names of MIME types in a result. Others are passed on under their own names.
FIELDS = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
    "e2b/data": "data",
    "e2b/chart": "chart",
}


def zmq_context():
    context = zmq.asyncio.Context()
    # A kernel drops messages that do not fit, and one of them may be the end of an execution.
    context.setsockopt(zmq.RCVHWM, 0)
    return context


class Kernel:
    """A running kernel and the channels to it."""

    def __init__(self, manager, client):
        self.manager = manager
        self.client = client
        self.has_ended = False
        self.is_busy = False

    @staticmethod
    async def start(name, cwd, context):
        manager = AsyncKernelManager(kernel_name=name)
        await manager.start_kernel(cwd=cwd)
        client = manager.client(context=context)
        client.start_channels()
        try:
            with contextlib.suppress(OSError), open(f"/proc/{manager.provisioner.pid}/oom_score_adj", "w") as file:
                file.write(str(OOM_SCORE))
            await client.wait_for_ready(timeout=START_SECONDS)
        except BaseException:
            client.stop_channels()
            await manager.shutdown_kernel(now=True)
            raise
        return Kernel(manager, client)

    async def stop(self):
        if self.has_ended:
            return
        self.has_ended = True
        # The channels of an execution that still runs are closed when it has seen the end.
        if not self.is_busy:
            self.client.stop_channels()
        await self.manager.shutdown_kernel(now=True)

    async def messages(self, code, silent):
        """The messages of one execution, until the kernel is idle again; None when the kernel has ended."""
        self.is_busy = True
        try:
            ident = self.client.execute(code, silent=silent, store_history=not silent, allow_stdin=False)
            replied_at = None
            heard_at = time.monotonic()
            while True:
                try:
                    message = await self.client.get_iopub_msg(timeout=POLL_SECONDS)
                except queue.Empty:
                    if self.has_ended or not await self.manager.is_alive():
                        yield None
                        return
                    if replied_at is None and await self.has_reply(ident):
                        replied_at = time.monotonic()
                    if replied_at is not None and time.monotonic() - max(replied_at, heard_at) > QUIET_SECONDS:
                        return
                    continue
                if message["parent_header"].get("msg_id") != ident:
                    continue
                heard_at = time.monotonic()
                if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                    await self.has_reply(ident)
                    return
                yield message
        finally:
            self.is_busy = False
            if self.has_ended:
                self.client.stop_channels()

    async def has_reply(self, ident):
        """Reads the replies that have come, so that they do not pile up."""
        found = False
        with contextlib.suppress(queue.Empty):
            while True:
                reply = await self.client.get_shell_msg(timeout=0)
                found = found or reply["parent_header"].get("msg_id") == ident
        return found


class Context:
    """One kernel with its state. Executions in it run one after the other."""

    def __init__(self, language, kernel_name, cwd, zmq_context):
        self.id = str(uuid.uuid4())
        self.language = language
        self.kernel_name = kernel_name
        self.cwd = cwd
        self.zmq_context = zmq_context
        self.lock = asyncio.Lock()
        self.kernel = None
        self.is_removed = False

    def view(self):
        return {"id": self.id, "language": self.language, "cwd": self.cwd}

    async def ensure(self):
        """Starts the kernel unless it runs. Called under the lock."""
        if self.is_removed:
            raise Refused(404, f"Context {self.id} not found")
        if self.kernel is None or self.kernel.has_ended:
            self.kernel = await Kernel.start(self.kernel_name, self.cwd, self.zmq_context)
        if self.is_removed:
            await self.stop()

    async def stop(self):
        """Ends the kernel, and an execution that runs in it."""
        if self.kernel is not None:
            await self.kernel.stop()

    async def restart(self):
        await self.stop()
        async with self.lock:
            await self.ensure()

    async def remove(self):
        self.is_removed = True
        await self.stop()

    async def events(self, code, silent=False):
        """The events of one execution. Read as fast as the kernel writes, whatever the client does."""
        kernel = self.kernel
        backlog = Backlog()

        async def read():
            try:
                async with contextlib.aclosing(kernel.messages(code, silent)) as messages:
                    async for message in messages:
                        if message is None:
                            is_ours = kernel.has_ended
                            await kernel.stop()
                            why = "the context was restarted or removed" if is_ours else "the kernel ended"
                            backlog.put({"type": "error", "name": "KernelDied", "value": why, "traceback": ""})
                            backlog.put({"type": "unexpected_end_of_execution"})
                        else:
                            event = event_of(message["msg_type"], message["content"])
                            if event is not None:
                                backlog.put(event)
            finally:
                backlog.end()

        reading = asyncio.ensure_future(read())
        try:
            async for event in backlog:
                yield event
            await reading
        finally:
            # The kernel stays busy until its execution is read to the end.
            await asyncio.wait([reading])

    async def quietly(self, code):
        async with contextlib.aclosing(self.events(code, silent=True)) as events:
            async for _ in events:
                pass


class Backlog:
    """Events that wait for the client. Output beyond the limit is left out, with a note in its place."""

    def __init__(self):
        self.events = collections.deque()
        self.size = 0
        self.is_full = False
        self.has_ended = False
        self.news = asyncio.Event()

    def put(self, event):
        size = len(event["text"]) if event["type"] in ("stdout", "stderr") else 0
        if size and self.size + size > MOST_BACKLOG:
            if self.is_full:
                return
            self.is_full = True
            event, size = {**event, "text": "\n[output was left out, because it was not read]\n"}, 0
        elif size:
            self.is_full = False
        self.events.append((event, size))
        self.size += size
        self.news.set()

    def end(self):
        self.has_ended = True
        self.news.set()

    async def __aiter__(self):
        while True:
            while self.events:
                event, size = self.events.popleft()
                self.size -= size
                yield event
            if self.has_ended:
                return
            self.news.clear()
            await self.news.wait()


def event_of(kind, content):
    if kind == "stream":
        now = int(time.time() * 1_000_000)
        return {"type": content["name"], "text": content["text"], "timestamp": now}
    if kind in ("execute_result", "display_data"):
        return {"type": "result", "is_main_result": kind == "execute_result", **result_of(content["data"])}
    if kind == "error":
        traceback = content["traceback"]
        text = traceback if isinstance(traceback, str) else "\n".join(traceback)
        return {"type": "error", "name": content["ename"] or "Error", "value": content["evalue"], "traceback": text}
    if kind == "execute_input":
        return {"type": "number_of_executions", "execution_count": content["execution_count"]}
    return None


def result_of(data):
    fields, extra = {}, {}
    for mime, value in data.items():
        if mime in FIELDS:
            fields[FIELDS[mime]] = value
        else:
            extra[mime] = value
    text = fields.get("text")
    # A string is shown without the quotes that Python and JavaScript put around it.
    if isinstance(text, str) and len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        fields["text"] = text[1:-1]
    return {**fields, **({"extra": extra} if extra else {})}
