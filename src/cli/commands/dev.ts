import { posix } from 'node:path'
import type { Process } from '../../client/process.ts'
import type { Sandbox } from '../../client/sandbox.ts'
import { addonTitle } from '../../config/plan/addons/addon-plan.ts'
import { SERVICE_NAMES } from '../../config/project/services-table.ts'
import { AgentPodError, asAgentPodError, invalid } from '../../core/error.ts'
import { KEPT_LIFETIME } from '../../core/spec.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { copyDirectory } from '../../workbench/copy/directory-copy.ts'
import { createFor } from '../../workbench/copy/open-copy.ts'
import type { ProjectCopy } from '../../workbench/copy/project-copy.ts'
import { loadEnvironment } from '../../workbench/environment/load-environment.ts'
import type { ReadyEnvironment } from '../../workbench/environment/ready-environment.ts'
import { type SandboxRequest, usualUser } from '../../workbench/environment/sandbox-request.ts'
import { inEnvironment, openProject, type Project } from '../../workbench/project/open-project.ts'
import { sandboxRequest, variableOptions } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import { checkCombination } from '../args/refuse.ts'
import { RUN_OPTIONS } from '../args/run-options.ts'
import type { Command, CommandContext } from '../command.ts'
import { showRefused } from '../output/refused-hosts.ts'
import { attach } from '../sandbox/attach-terminal.ts'
import { beginSync, type DevSync, prepareSync } from '../sandbox/dev-sync.ts'
import { type Forward, forwardNear } from '../sandbox/forward-port.ts'
import { showTogether } from '../sandbox/interleave-output.ts'
import { watchPorts } from '../sandbox/listening-ports.ts'
import { keptLine, showChanges } from '../sandbox/run-on-copy.ts'

const { json: _, learn: __, bare: ___, from: ____, 'no-project': _____, ...OPTIONS } = RUN_OPTIONS

export const command: Command = {
  usage: 'agentpod dev [options] [--] [ARG...]',
  examples: [
    'agentpod dev                      start the services and the dev command, and forward the ports',
    'agentpod dev --sync               and sync the files both ways',
    'agentpod dev -- --port 4000       pass arguments to the dev command',
    'agentpod dev --keep --name web    keep the sandbox afterwards',
  ],
  options: {
    ...OPTIONS,
    sync: { help: 'sync changes both ways as they happen; a conflict keeps both versions' },
    'no-forward': { help: 'do not forward ports' },
  },
  words: { min: 0, max: 10_000, rest: true },
  async run(ctx, parsed) {
    checkCombination(parsed)
    const request = {
      ...sandboxRequest(parsed, variableOptions(parsed, ctx.env)),
      isCurrent: true,
      isInteractive: true,
    }
    const opened = await openProject(ctx, usualUser(request))
    const ready = await loadEnvironment(ctx, request, opened)
    const commands = devCommands(ready, parsed.words)
    if (!ready) throw unknownCommand()
    const project = inEnvironment(opened, parsed.value('user') ?? ready.user, ready)
    return new Dev(ctx, parsed, { project, ready, request }).run(commands)
  },
}

/** A command and the directory it runs in. */
interface DevCommand {
  readonly directory: string
  readonly run: string
}

function devCommands(ready: ReadyEnvironment | undefined, words: readonly string[]): readonly DevCommand[] {
  const commands = ready?.commands.dev ?? []
  if (commands.length === 0) throw unknownCommand()
  if (words.length > 0 && (commands.length > 1 || commands[0]?.run.includes('\n')))
    throw invalid(
      'dev.words',
      'arguments cannot be passed to several dev commands',
      'choose one in agentpod.toml: [lifecycle] dev = "..."',
    )
  return commands
}

function unknownCommand(): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'dev.unknown',
    message: 'no dev command was found for this project',
    hint: 'set one in agentpod.toml: [lifecycle] dev = "..."',
  })
}

/** A running sandbox is extended now and then, unless a time to live was given. */
const EXTEND_EVERY_MS = 10 * 60_000
const EXTEND_MS = 60 * 60_000
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * SECURITY: ports of databases are not forwarded, so that a program inside cannot pose as one of this
 * machine's.
 */
const SERVICE_PORTS: readonly number[] = Object.values(SERVICE_NAMES)

interface DevParts {
  readonly project: Project
  readonly ready: ReadyEnvironment
  readonly request: SandboxRequest
}

/** One call of `dev`: a sandbox, its forwarded ports and its commands, until the end. */
class Dev {
  readonly #ctx: CommandContext
  readonly #parsed: Parsed
  readonly #project: Project
  readonly #ready: ReadyEnvironment
  readonly #request: SandboxRequest
  #copy: ProjectCopy | undefined
  #sandbox: Sandbox | undefined
  #isKept: boolean
  /** What an interrupt does now. */
  #interrupt: (signal: NodeJS.Signals) => void = () => undefined

  constructor(ctx: CommandContext, parsed: Parsed, { project, ready, request }: DevParts) {
    this.#ctx = ctx
    this.#parsed = parsed
    this.#project = project
    this.#ready = ready
    this.#request = request
    this.#isKept = parsed.has('keep')
  }

  async run(commands: readonly DevCommand[]): Promise<number> {
    const { terminal } = this.#ctx
    const heard = (signal: NodeJS.Signals): void => this.#interrupt(signal)
    for (const signal of SIGNALS) process.on(signal, heard)
    // A closed terminal must not leave the sandbox behind.
    for (const stream of [terminal.stdout, terminal.stderr]) stream.on('error', () => undefined)
    try {
      return await this.#live(commands)
    } finally {
      this.#interrupt = () => this.#leaveNow()
      if (!this.#isKept) await this.#sandbox?.destroy()
      for (const signal of SIGNALS) process.off(signal, heard)
    }
  }

  async #live(commands: readonly DevCommand[]): Promise<number> {
    const started = new AbortController()
    this.#interrupt = () => (started.signal.aborted ? this.#leaveNow() : started.abort(canceled()))
    const prepared = this.#parsed.has('sync') ? await prepareSync(this.#ctx, this.#project) : undefined
    const sandbox = await this.#start(started.signal)
    using stack = new DisposableStack()
    if (!this.#parsed.has('no-forward')) {
      const forwards = new Map<number, () => void>()
      for (const { port, label } of this.#ready.ports) {
        const forward = stack.use(await forwardNear(sandbox, port))
        forwards.set(port, () => this.#sayForward(forward, port, label))
      }
      this.#watchPorts(sandbox, stack, forwards)
    }
    const sync = prepared && (await beginSync(this.#ctx, sandbox, this.#project, prepared))
    started.signal.throwIfAborted()
    try {
      const exitCode = await this.#runAll(sandbox, commands)
      if (exitCode !== 0) await showRefused(this.#ctx.terminal, sandbox)
      return exitCode
    } finally {
      this.#interrupt = () => this.#leaveNow()
      await this.#bringOut(sandbox, sync)
    }
  }

  /** A sandbox with the project in it and its services ready. */
  async #start(signal: AbortSignal): Promise<Sandbox> {
    const ctx = this.#ctx
    const { sandbox, isPrepared } = await createFor(ctx, this.#request, this.#project, this.#ready, {
      'agentpod/dev': 'true',
    })
    this.#sandbox = sandbox
    if (!this.#hasOwnTime()) keepAlive(sandbox, this.#isKept ? KEPT_LIFETIME.ttlMs : EXTEND_MS)
    signal.throwIfAborted()
    this.#copy = await copyDirectory(ctx, sandbox, this.#project, isPrepared)
    signal.throwIfAborted()
    // With the files in it, everything has started with the sandbox.
    if (this.#ready.begins && !isPrepared) await sandbox.begin()
    await this.#sayServices(sandbox)
    await this.#sayAddons(sandbox)
    return sandbox
  }

  /** Whether the options or the project's files say how long it may live. */
  #hasOwnTime(): boolean {
    return this.#ready.apply(this.#request.options ?? {}).lifetime?.ttlMs !== undefined
  }

  async #sayServices(sandbox: Sandbox): Promise<void> {
    const events = await sandbox.events(0, 'service.ready')
    const names = new Set(events.map(({ data }) => showHidden(String(data['service']))))
    if (names.size > 0) this.#ctx.terminal.say(`ready: ${[...names].join(', ')}`)
  }

  /**
   * SECURITY: addons ask for no password, so their ports are not forwarded: any page or user here could use
   * them. A preview lets in the browser that opens its address.
   */
  async #sayAddons(sandbox: Sandbox): Promise<void> {
    const { terminal } = this.#ctx
    const pod = await this.#ctx.client()
    for (const { name, port } of this.#ready.addons) {
      const { url, openUrl } = await pod.preview(sandbox.id, port)
      terminal.say(`${terminal.bold(openUrl ?? url)}  ${addonTitle(name)}${openUrl ? OPENS_ONCE : ''}`)
    }
  }

  #sayForward(forward: Forward, port: number, label: string | undefined): void {
    const { terminal } = this.#ctx
    const address = terminal.bold(`http://127.0.0.1:${forward.port}`)
    const other = `(port ${port} inside; ${port} is in use here)`
    const notes = [label === undefined ? '' : showHidden(label), forward.port === port ? '' : other]
    terminal.say([address, ...notes.filter((note) => note !== '')].join('  '))
  }

  /** Prints the address of a port once a program listens on it, and forwards ports that no file names. */
  #watchPorts(sandbox: Sandbox, stack: DisposableStack, forwards: ReadonlyMap<number, () => void>): void {
    const ended = new AbortController()
    stack.defer(() => ended.abort())
    const named = [...this.#ready.ports, ...this.#ready.addons].map(({ port }) => port)
    const known = new Set([...named, ...SERVICE_PORTS])
    const watched = watchPorts(sandbox, {
      signal: ended.signal,
      awaited: [...forwards.keys()],
      isKnown: (port) => known.has(port),
      listens: (port) => forwards.get(port)?.(),
      found: async (port) => {
        const forward = await forwardNear(sandbox, port)
        if (ended.signal.aborted) return forward[Symbol.dispose]()
        stack.use(forward)
        this.#sayForward(forward, port, `port ${port} listens inside`)
      },
    })
    // It ends with the sandbox, which may end before this command.
    void watched.catch(() => undefined)
  }

  /** A single command gets the terminal; several commands get a prefix on each line. */
  async #runAll(sandbox: Sandbox, commands: readonly DevCommand[]): Promise<number> {
    const { terminal } = this.#ctx
    const isTerminal = commands.length === 1 && terminal.isInteractive && !this.#parsed.has('no-terminal')
    const hasStdin = commands.length === 1 && !terminal.stdin.isTTY
    const children = commands.map((one) => this.#exec(sandbox, one, { isTerminal, hasStdin }))
    const [child] = children
    if (child && children.length === 1) {
      // `attach` handles keys, and signals in a pipe; other signals are passed on here.
      this.#interrupt = (signal) => {
        if (isTerminal || signal === 'SIGHUP') void child.signal(signal).catch(() => undefined)
      }
      return attach({
        process: child,
        terminal,
        isTerminal,
        hasStdin,
        onSecondInterrupt: () => this.#leaveNow(),
      })
    }
    let interrupts = 0
    this.#interrupt = (signal) => {
      if (++interrupts > 1) this.#leaveNow()
      else for (const each of children) void each.signal(signal).catch(() => undefined)
    }
    return showTogether(
      terminal,
      children.map((process, i) => ({ name: showHidden(commands[i]?.directory || '.'), process })),
    )
  }

  #exec(
    sandbox: Sandbox,
    { directory, run }: DevCommand,
    o: { readonly isTerminal: boolean; readonly hasStdin: boolean },
  ): Process {
    const { terminal, env } = this.#ctx
    const variables = variableOptions(this.#parsed, env)
    return sandbox.exec('/bin/sh', {
      args: ['-c', script(run), 'dev', ...this.#parsed.words],
      cwd: this.#parsed.value('workdir') ?? posix.join(this.#project.workspace, directory),
      user: this.#parsed.value('user'),
      stdin: o.hasStdin,
      env: o.isTerminal ? { TERM: env['TERM'] ?? 'xterm', ...variables } : variables,
      terminal: o.isTerminal ? { cols: terminal.stdout.columns, rows: terminal.stdout.rows } : undefined,
    })
  }

  /**
   * With sync, brings the last changes out; without, lists them as `run` does. If that fails, the sandbox is
   * kept.
   */
  async #bringOut(sandbox: Sandbox, sync: DevSync | undefined): Promise<void> {
    try {
      if (sync) await sync.finish()
      else if (this.#copy) await showChanges(this.#ctx, await this.#copy.bringBack({ command: [] }), false)
    } catch (error) {
      const { message, code } = asAgentPodError(error)
      this.#ctx.terminal.say(showHidden(message))
      this.#isKept ||= code !== 'not_found'
    }
    if (this.#isKept) this.#ctx.terminal.say(keptLine(sandbox))
  }

  /** Waits only for the end of the sandbox. */
  #leaveNow(): void {
    this.#ctx.terminal.say(
      this.#isKept ? 'interrupted twice: leaving the sandbox' : 'interrupted twice: destroying the sandbox',
    )
    const destroyed = this.#isKept ? Promise.resolve() : (this.#sandbox?.destroy() ?? Promise.resolve())
    void destroyed.catch(() => undefined).finally(() => process.exit(130))
  }
}

const OPENS_ONCE = ' (this address works once, within a minute; `agentpod port` prints another)'

/** The shell ignores interrupts, so that the command ends in its own way and its exit code counts. */
function script(run: string): string {
  return `trap : INT TERM HUP\n${run.includes('\n') ? run : `${run} "$@"`}`
}

function keepAlive(sandbox: Sandbox, ttlMs: number): void {
  setInterval(() => void sandbox.extend(ttlMs).catch(() => undefined), EXTEND_EVERY_MS).unref()
}

function canceled(): AgentPodError {
  return new AgentPodError({ code: 'canceled', reason: 'canceled', message: 'interrupted' })
}
