/** Two-way sync between the project of a command and its sandbox. */
import type { Sandbox } from '../../client/sandbox.ts'
import { AgentPodError } from '../../core/error.ts'
import { NOT_TEXT } from '../../sync/project-files.ts'
import { HostDirectory } from '../../sync/two-way/host-directory.ts'
import { type SandboxAccess, SandboxDirectory } from '../../sync/two-way/sandbox-directory.ts'
import type { PathStat } from '../../sync/two-way/side.ts'
import { startSync } from '../../sync/two-way/sync-loop.ts'
import { systemClock } from '../../util/clock.ts'
import { withTimeout } from '../../util/deadline.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import type { Project } from '../../workbench/project/open-project.ts'
import type { CommandContext } from '../command.ts'

/** The last sync scans both sides and copies what is left. */
const FINISH_MS = 5 * 60_000

/** This machine's side before the project is copied in. */
export interface PreparedSync {
  readonly host: HostDirectory
  readonly sent: ReadonlyMap<string, PathStat>
}

export interface DevSync {
  /** Brings the last changes out. Throws if a change may exist only inside. */
  finish(): Promise<void>
}

export async function prepareSync(ctx: CommandContext, project: Project): Promise<PreparedSync> {
  const { directory, generated: unsynced, files } = project
  const onNotText = sayLeftOut(ctx, 'here')
  const host = new HostDirectory({ directory, unsynced, exclude: [ctx.home.root], env: ctx.env, onNotText })
  return { host, sent: await host.look(files) }
}

const MOST_LEFT_OUT = 20

/** A file that is not synced is reported once, not at every scan. */
function sayLeftOut({ terminal }: CommandContext, where: 'here' | 'inside'): (path: string) => void {
  const said = new Set<string>()
  return (path) => {
    if (said.has(path) || said.size > MOST_LEFT_OUT) return
    said.add(path)
    const line = said.size > MOST_LEFT_OUT ? 'and more files' : showHidden(path)
    terminal.say(`${terminal.bold('sync:')} left out ${where}: ${line}: ${NOT_TEXT}`)
  }
}

/** Starts the sync once the project is in the sandbox. */
export async function beginSync(
  ctx: CommandContext,
  sandbox: Sandbox,
  project: Project,
  { host, sent }: PreparedSync,
): Promise<DevSync> {
  const { terminal } = ctx
  const say = (line: string): void => terminal.say(`${terminal.bold('sync:')} ${showHidden(line)}`)
  const inside = new SandboxDirectory({
    access: accessTo(sandbox, project.user),
    workspace: project.workspace,
    unsynced: host.unsynced,
    clock: systemClock,
    onNotText: sayLeftOut(ctx, 'inside'),
  })
  // Before any command of the user, so that the newest process is the user's.
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

function accessTo(sandbox: Sandbox, user: string): SandboxAccess {
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
