/** Two-way sync between the project of a command and its sandbox. */
import type { Sandbox } from '../client/sandbox.ts'
import { AgentPodError } from '../core/error.ts'
import { NOT_TEXT } from '../sync/project.ts'
import { Host } from '../sync/two-way-host.ts'
import { type Door, Inside } from '../sync/two-way-inside.ts'
import { startSync } from '../sync/two-way-loop.ts'
import type { Mark } from '../sync/two-way-side.ts'
import { systemClock } from '../util/clock.ts'
import { withTimeout } from '../util/deadline.ts'
import type { CommandContext } from './command.ts'
import { printable } from './output/terminal.ts'
import type { Project } from './project.ts'

/** A last look takes as long as a scan of both sides, and as what is still to be copied. */
const FINISH_MS = 5 * 60_000

/** This machine's side, as it is before the project is sent. */
export interface PreparedSync {
  readonly host: Host
  readonly sent: ReadonlyMap<string, Mark>
}

export interface DevSync {
  /** Brings the last changes out. Throws where something may be inside alone. */
  finish(): Promise<void>
}

export async function prepareSync(ctx: CommandContext, project: Project): Promise<PreparedSync> {
  const { directory, aside, files } = project
  const onNotText = sayLeftOut(ctx, 'here')
  const host = new Host({ directory, aside, exclude: [ctx.home.root], env: ctx.env, onNotText })
  return { host, sent: await host.look(files) }
}

const MOST_LEFT_OUT = 20

/** A file that is not synced is said once, not at every look. */
function sayLeftOut({ terminal }: CommandContext, where: 'here' | 'inside'): (path: string) => void {
  const said = new Set<string>()
  return (path) => {
    if (said.has(path) || said.size > MOST_LEFT_OUT) return
    said.add(path)
    const line = said.size > MOST_LEFT_OUT ? 'and more files' : printable(path)
    terminal.say(`${terminal.bold('sync:')} left out ${where}: ${line}: ${NOT_TEXT}`)
  }
}

/** For when the project is in the sandbox. */
export async function beginSync(
  ctx: CommandContext,
  sandbox: Sandbox,
  project: Project,
  { host, sent }: PreparedSync,
): Promise<DevSync> {
  const { terminal } = ctx
  const say = (line: string): void => terminal.say(`${terminal.bold('sync:')} ${printable(line)}`)
  const inside = new Inside({
    door: doorTo(sandbox, project.user),
    workspace: project.workspace,
    aside: host.outside,
    clock: systemClock,
    onNotText: sayLeftOut(ctx, 'inside'),
  })
  // Before any command of the person's, so that the newest process is theirs.
  await inside.begin()
  const running = startSync({ host, inside, sent, clock: systemClock, say })
  let failure: AgentPodError | undefined
  void running.ended.then((error) => {
    failure = error
    say(`ended: ${error.message}`)
  })
  return {
    async finish() {
      if (failure) throw failure
      await withTimeout(FINISH_MS, undefined, () => running.finish(), late)
      await inside[Symbol.asyncDispose]()
    },
  }
}

function doorTo(sandbox: Sandbox, user: string): Door {
  return {
    start(command, args) {
      const child = sandbox.exec(command, { args, user, cwd: '/', stdin: true })
      return {
        output: () => child.output(),
        write: (data) => child.write(data),
        end: () => child.closeStdin(),
      }
    },
    readFile: async (path) => (await sandbox.readFile(path, { user })) as AsyncIterable<Buffer>,
    writeFile: (path, content) => sandbox.writeFile(path, content, { user }),
    unpack: (path, tar) => sandbox.unpack(path, tar, { user }),
    watch: (path, o) => sandbox.watch(path, { recursive: true, ...o }),
  }
}

function late(): AgentPodError {
  return new AgentPodError({
    code: 'deadline_exceeded',
    reason: 'sync.late',
    message: `the last changes were not out after ${FINISH_MS / 60_000} minutes`,
  })
}
