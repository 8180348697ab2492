import { posix } from 'node:path'
import type { Process } from '../../client/process.ts'
import type { CreateOptions, Sandbox } from '../../client/sandbox.ts'
import { KNOWN_SERVICES } from '../../config/project/services-table.ts'
import { AgentPodError, asAgentPodError, invalid } from '../../core/error.ts'
import { createOptions, usualUser, variablesOf } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import { checkCombination } from '../args/refuse.ts'
import { attach } from '../attached.ts'
import type { Command, CommandContext } from '../command.ts'
import { beginSync, type DevSync, prepareSync } from '../dev-sync.ts'
import { environmentIn } from '../environment.ts'
import { type Forward, forwardNear } from '../forward.ts'
import { watchPorts } from '../listening-ports.ts'
import { networkOf } from '../network.ts'
import { showRefused } from '../output/refused-hosts.ts'
import { printable } from '../output/terminal.ts'
import { placementOf } from '../placement.ts'
import { inEnvironment, openProject, type Project, sendProject, showChanges } from '../project.ts'
import type { ReadyEnvironment } from '../ready.ts'
import { showTogether } from '../side-by-side.ts'
import { createSandbox } from './create.ts'
import { RUN_OPTIONS } from './run.ts'

const { json: _, learn: __, bare: ___, from: ____, 'no-project': _____, ...OPTIONS } = RUN_OPTIONS

export const command: Command = {
  usage: 'agentpod dev [options] [--] [ARG...]',
  examples: [
    'agentpod dev                      services, the dev command, and its ports on this machine',
    'agentpod dev --sync               and the project stays the same here and inside',
    'agentpod dev -- --port 4000       with words for the dev command',
    'agentpod dev --keep --name web    keep the sandbox afterwards',
  ],
  options: {
    ...OPTIONS,
    sync: { help: 'bring changes in and out as they are made; of conflicts both versions are kept' },
    'no-forward': { help: 'leave its ports inside' },
  },
  words: { min: 0, max: 10_000, rest: true },
  async run(ctx, parsed) {
    checkCombination(parsed)
    const opened = await openProject(ctx, usualUser(parsed))
    const ready = await environmentIn(ctx, parsed, opened)
    const commands = devCommands(ready, parsed.words)
    if (!ready) throw unknownCommand()
    const project = inEnvironment(opened, parsed.value('user') ?? ready.user, ready.aside)
    const dev = new Dev(ctx, parsed, project, ready)
    return dev.run(commands)
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
      'this project has several dev commands; which one the words are for is not known',
      'say which one to run in agentpod.toml: [lifecycle] dev = "..."',
    )
  return commands
}

function unknownCommand(): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'dev.unknown',
    message: 'how this project is run for development is not known',
    hint: 'say it in agentpod.toml: [lifecycle] dev = "..."',
  })
}

/** While it runs it is given another hour now and then, unless somebody said how long it may live. */
const EXTEND_EVERY_MS = 10 * 60_000
const EXTEND_MS = 60 * 60_000
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** SECURITY: a program inside that listens where a database of this machine would does not take its place here. */
const SERVICE_PORTS: readonly number[] = Object.values(KNOWN_SERVICES)

/** One run: a sandbox, what is joined with it, and the end of it all. */
class Dev {
  readonly #ctx: CommandContext
  readonly #parsed: Parsed
  readonly #project: Project
  readonly #ready: ReadyEnvironment
  #sandbox: Sandbox | undefined
  #isKept: boolean
  /** What an interrupt does at the moment. */
  #interrupt: (signal: NodeJS.Signals) => void = () => undefined

  constructor(ctx: CommandContext, parsed: Parsed, project: Project, ready: ReadyEnvironment) {
    this.#ctx = ctx
    this.#parsed = parsed
    this.#project = project
    this.#ready = ready
    this.#isKept = parsed.has('keep')
  }

  async run(commands: readonly DevCommand[]): Promise<number> {
    const { terminal } = this.#ctx
    const heard = (signal: NodeJS.Signals): void => this.#interrupt(signal)
    for (const signal of SIGNALS) process.on(signal, heard)
    // A terminal that was closed is no reason to leave the sandbox behind.
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
    const options = await this.#options()
    const sandbox = await createSandbox(
      await ctx.client(),
      options,
      ctx.terminal,
      await networkOf(ctx, this.#parsed, this.#project.directory, this.#ready.wish),
    )
    this.#sandbox = sandbox
    if (options.lifetime?.ttlMs === undefined) keepAlive(sandbox)
    signal.throwIfAborted()
    await sendProject(ctx, sandbox, this.#project)
    signal.throwIfAborted()
    if (this.#ready.begins) await sandbox.begin()
    await this.#sayServices(sandbox)
    return sandbox
  }

  async #options(): Promise<CreateOptions> {
    const placement = await placementOf(this.#ctx, this.#parsed, this.#project.directory)
    const variables = variablesOf(this.#parsed, this.#ctx.env)
    const options = this.#ready.apply(createOptions(this.#parsed, variables, { isAnyBase: true, placement }))
    const name = printable(this.#project.name).slice(0, 200)
    return {
      ...options,
      labels: { ...options.labels, 'agentpod/project': name, 'agentpod/dev': 'true' },
    }
  }

  async #sayServices(sandbox: Sandbox): Promise<void> {
    const events = await sandbox.events(0, 'service.ready')
    const names = new Set(events.map(({ data }) => printable(String(data['service']))))
    if (names.size > 0) this.#ctx.terminal.say(`ready: ${[...names].join(', ')}`)
  }

  #sayForward(forward: Forward, port: number, label: string | undefined): void {
    const { terminal } = this.#ctx
    const address = terminal.bold(`http://127.0.0.1:${forward.port}`)
    const other = `(port ${port} inside; ${port} is in use here)`
    const notes = [label === undefined ? '' : printable(label), forward.port === port ? '' : other]
    terminal.say([address, ...notes.filter((note) => note !== '')].join('  '))
  }

  /** Says where a port is once something listens on it, and brings out those that no file names. */
  #watchPorts(sandbox: Sandbox, stack: DisposableStack, forwards: ReadonlyMap<number, () => void>): void {
    const ended = new AbortController()
    stack.defer(() => ended.abort())
    const known = new Set([...this.#ready.ports.map(({ port }) => port), ...SERVICE_PORTS])
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
    // It ends with the sandbox, which may be before us.
    void watched.catch(() => undefined)
  }

  /** One command has the terminal for itself; of several each line says whose it is. */
  async #runAll(sandbox: Sandbox, commands: readonly DevCommand[]): Promise<number> {
    const { terminal } = this.#ctx
    const isTerminal = commands.length === 1 && terminal.isInteractive && !this.#parsed.has('no-terminal')
    const hasStdin = commands.length === 1 && !terminal.stdin.isTTY
    const children = commands.map((one) => this.#exec(sandbox, one, { isTerminal, hasStdin }))
    const [child] = children
    if (child && children.length === 1) {
      // What comes as a key or as a signal to a pipe is for `attach`; the rest is ours to pass on.
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
      children.map((process, i) => ({ name: printable(commands[i]?.directory || '.'), process })),
    )
  }

  #exec(
    sandbox: Sandbox,
    { directory, run }: DevCommand,
    o: { readonly isTerminal: boolean; readonly hasStdin: boolean },
  ): Process {
    const { terminal, env } = this.#ctx
    const variables = variablesOf(this.#parsed, env)
    return sandbox.exec('/bin/sh', {
      args: ['-c', script(run), 'dev', ...this.#parsed.words],
      cwd: this.#parsed.value('workdir') ?? posix.join(this.#project.workspace, directory),
      user: this.#parsed.value('user'),
      stdin: o.hasStdin,
      env: o.isTerminal ? { TERM: env['TERM'] ?? 'xterm', ...variables } : variables,
      terminal: o.isTerminal ? { cols: terminal.stdout.columns, rows: terminal.stdout.rows } : undefined,
    })
  }

  /** With sync the last changes come out; without it they are listed, as after `run`. Where that fails the sandbox stays. */
  async #bringOut(sandbox: Sandbox, sync: DevSync | undefined): Promise<void> {
    try {
      if (sync) await sync.finish()
      else await showChanges(this.#ctx, sandbox, this.#project, false)
    } catch (error) {
      const { message, code } = asAgentPodError(error)
      this.#ctx.terminal.say(printable(message))
      this.#isKept ||= code !== 'not_found'
    }
    if (this.#isKept) this.#sayKept(sandbox)
  }

  #sayKept({ id, info: { name } }: Sandbox): void {
    const called = name ?? id
    this.#ctx.terminal.say(`kept: ${id} (agentpod exec ${called} -- ..., agentpod destroy ${called})`)
  }

  /** Waits for nobody but the end of the sandbox. */
  #leaveNow(): void {
    this.#ctx.terminal.say(
      this.#isKept ? 'interrupted twice: leaving the sandbox' : 'interrupted twice: destroying the sandbox',
    )
    const destroyed = this.#isKept ? Promise.resolve() : (this.#sandbox?.destroy() ?? Promise.resolve())
    void destroyed.catch(() => undefined).finally(() => process.exit(130))
  }
}

/** The shell outlives an interrupt, so that the command can end as it likes, and its code is what counts. */
function script(run: string): string {
  return `trap : INT TERM HUP\n${run.includes('\n') ? run : `${run} "$@"`}`
}

function keepAlive(sandbox: Sandbox): void {
  setInterval(() => void sandbox.extend(EXTEND_MS).catch(() => undefined), EXTEND_EVERY_MS).unref()
}

function canceled(): AgentPodError {
  return new AgentPodError({ code: 'canceled', reason: 'canceled', message: 'interrupted' })
}
