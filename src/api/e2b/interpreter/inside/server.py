"""E2B's code interpreter protocol in front of Jupyter kernels: contexts, and executions as JSON lines."""

import asyncio
import contextlib
import json
import os
import signal
import sys

from kernels import Context, zmq_context
from languages import ALIASES, HINTS, KERNELS, Refused, kernel_of, variables_code, variables_of
from tornado import web
from tornado.iostream import StreamClosedError

PORT = 49999
HOME = os.path.expanduser("~")
LARGEST_BODY = 64 * 1024 * 1024
MOST_CONTEXTS = 64
MOST_STARTS = 4
# Nobody waits for an execution whose client has left. One that ignores interrupts ends with its kernel.
INTERRUPTS = 3
INTERRUPT_SECONDS = 5


class Contexts:
    def __init__(self):
        self.by_id = {}
        self.defaults = {}
        self.starting = {}
        self.zmq_context = zmq_context()
        self.reserved = 0
        # Kernels that start at once slow each other down, until none is ready in time.
        self.starts = asyncio.Semaphore(MOST_STARTS)

    def language(self, asked):
        name = str(asked or "python").lower()
        name = ALIASES.get(name, name)
        if name not in KERNELS:
            raise Refused(400, f"unsupported language: {name[:80]}; use {', '.join(KERNELS)}")
        if kernel_of(name) is None:
            hint = f" ({HINTS[name]})" if name in HINTS else ""
            raise Refused(400, f"there is no kernel for {name} in this sandbox{hint}")
        return name

    async def add(self, language, cwd):
        if len(self.by_id) + self.reserved >= MOST_CONTEXTS:
            raise Refused(429, f"there are already {MOST_CONTEXTS} contexts")
        if "\0" in cwd or not os.path.isdir(cwd):
            raise Refused(400, f"there is no directory {cwd[:200]}")
        context = Context(language, kernel_of(language), cwd, self.zmq_context)
        self.reserved += 1
        try:
            async with self.starts, context.lock:
                await context.ensure()
        finally:
            self.reserved -= 1
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
        context = self.by_id.get(ident) if isinstance(ident, str) else None
        if context is None:
            raise Refused(404, f"Context {str(ident)[:80]} not found")
        return context

    async def remove(self, ident):
        context = self.get(ident)
        del self.by_id[ident]
        await context.remove()


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
        await self.contexts.get(ident).restart()
        self.finish({})


class Execute(Handler):
    is_gone = False
    running = None

    def on_connection_close(self):
        # The client has left, so nobody waits for the rest: the next execution should not either.
        self.is_gone = True
        if self.running is not None:
            asyncio.ensure_future(give_up(*self.running))

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
        variables = variables_of(body)
        before, after = variables_code(context.language, variables) if variables else ("", "")
        self.set_header("content-type", "application/x-ndjson")
        await self.flush()
        try:
            async with context.lock:
                await self.run(context, code, before, after)
        except (Refused, RuntimeError) as error:
            # The kernel did not start; the answer has already begun.
            await self.say({"type": "error", "name": "KernelDied", "value": str(error), "traceback": ""})
            await self.say({"type": "unexpected_end_of_execution"})
        await self.say({"type": "end_of_execution"})

    async def run(self, context, code, before, after):
        if self.is_gone:
            return
        await context.ensure()
        if before:
            await context.quietly(before)
        is_over = asyncio.Event()
        self.running = (context.kernel, is_over)
        try:
            # It may have left while the variables were set.
            if not self.is_gone:
                async with contextlib.aclosing(context.events(code)) as events:
                    async for event in events:
                        await self.say(event)
        finally:
            self.running = None
            is_over.set()
        if after and not context.kernel.has_ended:
            await context.quietly(after)

    async def say(self, event):
        if self.is_gone:
            return
        try:
            self.write(json.dumps(event, default=str) + "\n")
            await self.flush()
        except StreamClosedError:
            self.is_gone = True


async def give_up(kernel, is_over):
    """Interrupts an execution; ends its kernel if that does not help."""
    for _ in range(INTERRUPTS):
        if is_over.is_set() or kernel.has_ended:
            return
        await kernel.manager.interrupt_kernel()
        with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
            await asyncio.wait_for(is_over.wait(), INTERRUPT_SECONDS)
    if not is_over.is_set():
        await kernel.stop()


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
    await asyncio.gather(*(one.remove() for one in contexts.by_id.values()), return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main())
