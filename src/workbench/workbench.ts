/** What every operation of the workbench is given: the user's place, the person to ask, and the server. */
import { homedir } from 'node:os'
import { resolve } from 'node:path'
import { AgentPod } from '../client/client.ts'
import { type Home, homeAt } from '../core/home.ts'
import { nobody, type Person } from './ask.ts'

export interface Workbench {
  /** The state directory: the user's `config.toml`, approvals, and what is kept about each project. */
  readonly home: Home
  /** The user's variables: where git is found, and which keys a model may use. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** The directory that the user works in; its repository is the project. */
  readonly cwd: string
  readonly person: Person
  client(): Promise<AgentPod>
}

export interface WorkbenchOptions {
  /** The project's directory, or one inside it. The current directory by default. */
  readonly directory?: string | undefined
  readonly person?: Person | undefined
  /** The server. By default the one that AGENTPOD_URL names, or the local one, which has to be running. */
  readonly client?: AgentPod | undefined
  readonly env?: Readonly<Record<string, string | undefined>> | undefined
}

/** For programs: a workbench with the defaults of the command line. */
export function openWorkbench(o: WorkbenchOptions = {}): Workbench {
  const env = o.env ?? process.env
  const pod = o.client ?? AgentPod.at()
  return {
    home: homeAt(resolve(env['AGENTPOD_HOME'] || `${homedir()}/.agentpod`)),
    env,
    cwd: resolve(o.directory ?? '.'),
    person: o.person ?? nobody,
    client: async () => pod,
  }
}
