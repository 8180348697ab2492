"""E2B's code interpreter protocol in front of Jupyter kernels: contexts, and executions as JSON lines."""

import asyncio
import json
import os
import queue
import signal
import sys
import time
import uuid

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from tornado import web
from tornado.iostream import StreamClosedError

PORT = 49999
HOME = os.path.expanduser("~")
START_SECONDS = 60
POLL_SECONDS = 0.5
LARGEST_BODY = 64 * 1024 * 1024
MOST_CONTEXTS = 64

# The kernel of each language, by every name that clients use for it.
KERNELS = {"python": "python3", "javascript": "javascript", "bash": "bash", "r": "ir", "java": "java"}
ALIASES = {"py": "python", "python3": "python", "js": "javascript", "sh": "bash", "shell": "bash"}

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


class Refused(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Context:
    """One kernel with its state. Executions in it run one after the other."""

    def __init__(self, language, cwd):
        self.id = str(uuid.uuid4())
        self.language = language
        self.cwd = cwd
        self.lock = asyncio.Lock()
        self.manager = None
        self.client = None

    def view(self):
        return {"id": self.id, "language": self.language, "cwd": self.cwd}

    async def start(self):
        manager = AsyncKernelManager(kernel_name=KERNELS[self.language])
        await manager.start_kernel(cwd=self.cwd)
        client = manager.client()
        client.start_channels()
        try:
            await client.wait_for_ready(timeout=START_SECONDS)
        except BaseException:
            client.stop_channels()
            await manager.shutdown_kernel(now=True)
            raise
        self.manager, self.client = manager, client

    async def stop(self):
        if self.manager is None:
            return
        self.client.stop_channels()
        await self.manager.shutdown_kernel(now=True)
        self.manager = self.client = None

    async def restart(self):
        await self.stop()
        await self.start()

    async def events(self, code, silent=False):
        """The events of one execution, until the kernel is idle again."""
        ident = self.client.execute(code, silent=silent, store_history=not silent, allow_stdin=False)
        while True:
            try:
                message = await self.client.get_iopub_msg(timeout=POLL_SECONDS)
            except queue.Empty:
                if await self.manager.is_alive():
                    continue
                yield {"type": "error", "name": "KernelDied", "value": "the kernel ended", "traceback": ""}
                yield {"type": "unexpected_end_of_execution"}
                await self.restart()
                return
            if message["parent_header"].get("msg_id") != ident:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                return
            event = event_of(kind, content)
            if event is not None:
                yield event

    async def quietly(self, code):
        async for _ in self.events(code, silent=True):
            pass


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


def variables_code(language, variables):
    """Code that sets variables of the environment, and code that sets them back."""
    data = json.dumps(variables)
    if language == "python":
        name = "__agentpod_before"
        return (
            f"import os as __agentpod_os, json as __agentpod_json\n__agentpod_set = __agentpod_json.loads({data!r})\n"
            f"{name} = {{k: __agentpod_os.environ.get(k) for k in __agentpod_set}}\n"
            "__agentpod_os.environ.update(__agentpod_set)",
            f"for __agentpod_k, __agentpod_v in {name}.items():\n"
            "    __agentpod_os.environ.pop(__agentpod_k, None) if __agentpod_v is None"
            " else __agentpod_os.environ.__setitem__(__agentpod_k, __agentpod_v)\n"
            f"del {name}, __agentpod_set, __agentpod_os, __agentpod_json",
        )
    if language == "javascript":
        return (
            f"globalThis.__agentpodBefore = {{...process.env}}; Object.assign(process.env, {data}); undefined",
            f"for (const k of Object.keys({data})) {{ if (k in globalThis.__agentpodBefore)"
            " process.env[k] = globalThis.__agentpodBefore[k]; else delete process.env[k] }; undefined",
        )
    if language == "bash":
        words = "".join(f"export {k}={shell_word(v)}\n" for k, v in variables.items())
        return words, "unset " + " ".join(variables)
    if language == "r":
        return f"do.call(Sys.setenv, list({', '.join(f'{k}={json.dumps(v)}' for k, v in variables.items())}))", ""
    raise Refused(400, f"env_vars are not supported for {language}")


def shell_word(text):
    return "'" + text.replace("'", "'\\''") + "'"


class Contexts:
    def __init__(self):
        self.by_id = {}
        self.defaults = {}
        self.starting = {}

    def language(self, asked):
        name = str(asked or "python").lower()
        name = ALIASES.get(name, name)
        if name not in KERNELS:
            raise Refused(400, f"unsupported language: {name}; use {', '.join(KERNELS)}")
        if KERNELS[name] not in KernelSpecManager().find_kernel_specs():
            raise Refused(400, f"there is no kernel for {name} in this template")
        return name

    async def add(self, language, cwd):
        if len(self.by_id) >= MOST_CONTEXTS:
            raise Refused(429, f"there are already {MOST_CONTEXTS} contexts")
        if not os.path.isdir(cwd):
            raise Refused(400, f"there is no directory {cwd}")
        context = Context(language, cwd)
        await context.start()
        self.by_id[context.id] = context
        return context

    async def default(self, language):
        """The context of executions that name none. Two first executions share one start."""
        known = self.by_id.get(self.defaults.get(language))
        if known is not None:
            return known
        if language not in self.starting:
            self.starting[language] = asyncio.ensure_future(self.add(language, HOME))
        try:
            context = await asyncio.shield(self.starting[language])
        finally:
            if language in self.starting and self.starting[language].done():
                del self.starting[language]
        self.defaults[language] = context.id
        return context

    def get(self, ident):
        context = self.by_id.get(ident)
        if context is None:
            raise Refused(404, f"Context {ident} not found")
        return context

    async def remove(self, ident):
        context = self.get(ident)
        del self.by_id[ident]
        await context.stop()


class Handler(web.RequestHandler):
    def initialize(self, contexts):
        self.contexts = contexts

    def body(self):
        if not self.request.body:
            return {}
        try:
            value = json.loads(self.request.body)
        except ValueError:
            raise Refused(400, "the body is not valid JSON") from None
        if not isinstance(value, dict):
            raise Refused(400, "the body is not an object")
        return value

    def write_error(self, status_code, **kwargs):
        error = kwargs.get("exc_info", (None, None, None))[1]
        if isinstance(error, Refused):
            self.set_status(error.status)
        self.finish({"code": self.get_status(), "message": str(error)})

    def log_exception(self, typ, value, tb):
        if not isinstance(value, Refused):
            super().log_exception(typ, value, tb)


class Health(Handler):
    def get(self):
        self.finish("OK")


class ContextList(Handler):
    def get(self):
        self.set_header("content-type", "application/json")
        self.finish(json.dumps([context.view() for context in self.contexts.by_id.values()]))

    async def post(self):
        body = self.body()
        language = self.contexts.language(body.get("language"))
        context = await self.contexts.add(language, str(body.get("cwd") or HOME))
        self.finish(context.view())


class OneContext(Handler):
    async def delete(self, ident):
        await self.contexts.remove(ident)
        self.set_status(204)


class Restart(Handler):
    async def post(self, ident):
        context = self.contexts.get(ident)
        await context.manager.interrupt_kernel()
        async with context.lock:
            await context.restart()
        self.finish({})


class Execute(Handler):
    gone = False
    interrupting = None

    def on_connection_close(self):
        # The client has left, so nobody waits for the rest: the next execution should not either.
        self.gone = True
        if self.interrupting is not None:
            asyncio.ensure_future(self.interrupting())

    async def post(self):
        body = self.body()
        code = body.get("code")
        if not isinstance(code, str):
            raise Refused(400, "code is missing")
        if body.get("context_id") and body.get("language"):
            raise Refused(400, "Only one of context_id or language can be provided")
        context = (
            self.contexts.get(body["context_id"])
            if body.get("context_id")
            else await self.contexts.default(self.contexts.language(body.get("language")))
        )
        variables = body.get("env_vars") or {}
        before, after = variables_code(context.language, variables) if variables else ("", "")
        self.set_header("content-type", "application/x-ndjson")
        await self.flush()
        async with context.lock:
            if self.gone:
                return
            if before:
                await context.quietly(before)
            self.interrupting = context.manager.interrupt_kernel
            async for event in context.events(code):
                await self.say(event)
            self.interrupting = None
            if after:
                await context.quietly(after)
        await self.say({"type": "end_of_execution"})

    async def say(self, event):
        if self.gone:
            return
        try:
            self.write(json.dumps(event, default=str) + "\n")
            await self.flush()
        except StreamClosedError:
            self.gone = True


def refuse_errors(handler):
    """Turns a refusal into its status; tornado makes 500 of every other exception."""
    for name in ("get", "post", "delete"):
        method = getattr(handler, name)

        async def guarded(self, *args, _method=method):
            try:
                result = _method(self, *args)
                if result is not None:
                    await result
            except Refused as error:
                self.set_status(error.status)
                self.finish({"code": error.status, "message": str(error)})

        setattr(handler, name, guarded)
    return handler


async def main():
    contexts = Contexts()
    options = {"contexts": contexts}
    routes = [
        (r"/health", Health),
        (r"/execute", Execute),
        (r"/contexts", ContextList),
        (r"/contexts/([^/]+)", OneContext),
        (r"/contexts/([^/]+)/restart", Restart),
    ]
    application = web.Application(
        [(path, refuse_errors(handler), options) for path, handler in routes],
        log_function=lambda handler: None,
    )
    application.listen(PORT, max_body_size=LARGEST_BODY)
    # Most programs run Python first.
    first = asyncio.ensure_future(contexts.default("python"))
    first.add_done_callback(lambda done: done.exception() and print(done.exception(), file=sys.stderr))
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()
    await asyncio.gather(*(one.stop() for one in contexts.by_id.values()), return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main())
