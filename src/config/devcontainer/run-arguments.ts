/** `runArgs`: options of the engine's `run` command, as far as a sandbox has the same. */
import { readMib } from '../../util/quantity.ts'

/** What becomes of a property. A `refused` one is not applied, and a note says so. */
export type SafetyVerdict = 'honoured' | 'approval' | 'refused' | 'no-effect'

export interface RunArgument {
  /** The option and its value, as in the file. */
  readonly written: string
  /** Where it begins in `runArgs`. */
  readonly index: number
  readonly verdict: SafetyVerdict
  readonly reason: string
}

/** What honoured arguments ask for. */
export interface RunWishes {
  readonly variables: Readonly<Record<string, string>>
  readonly cpus?: number | undefined
  readonly memoryMib?: number | undefined
  readonly user?: string | undefined
  readonly capabilities: readonly string[]
  readonly securityOptions: readonly string[]
  readonly mounts: readonly string[]
  readonly isPrivileged: boolean
  readonly arguments: readonly RunArgument[]
}

const SHORT: Readonly<Record<string, string>> = {
  '-e': '--env',
  '-m': '--memory',
  '-u': '--user',
  '-h': '--hostname',
  '-l': '--label',
  '-v': '--volume',
  '-p': '--publish',
}
const WITHOUT_VALUE = [
  '--init',
  '--rm',
  '--privileged',
  '--interactive',
  '--tty',
  '-i',
  '-t',
  '-it',
  '-d',
  '-P',
]

const HOST = 'the sandbox would share it with this machine'
const REFUSED: Readonly<Record<string, string>> = {
  '--network': 'a sandbox has its own network, behind the egress process',
  '--net': 'a sandbox has its own network, behind the egress process',
  '--pid': HOST,
  '--ipc': HOST,
  '--uts': HOST,
  '--userns': HOST,
  '--cgroupns': HOST,
  '--device': 'a sandbox has no devices of this machine',
  '--gpus': 'a sandbox has no GPU',
  '--env-file': 'the file is on this machine; say the variables in containerEnv',
  '--volume': 'use mounts, with a volume',
  '--publish': 'use forwardPorts',
  '--sysctl': 'the kernel is shared with this machine',
}
const NO_EFFECT: Readonly<Record<string, string>> = {
  '--init': 'every sandbox has an init process',
  '--rm': 'sandboxes have their own lifetime',
  '--interactive': 'terminals are opened when they are needed',
  '--tty': 'terminals are opened when they are needed',
  '--name': 'sandboxes have their own names',
  '--hostname': 'sandboxes have their own names',
  '--label': 'labels are for the engine',
}

/** Two entries of the list may be one option: `--cap-add`, `SYS_PTRACE`. */
export function runWishes(runArgs: readonly string[]): RunWishes {
  const made = {
    variables: {} as Record<string, string>,
    capabilities: [] as string[],
    securityOptions: [] as string[],
    mounts: [] as string[],
    isPrivileged: false,
    arguments: [] as RunArgument[],
  }
  const limits: { cpus?: number; memoryMib?: number; user?: string } = {}
  for (let index = 0; index < runArgs.length; index++) {
    const from = index
    const first = runArgs[index] ?? ''
    const equals = first.startsWith('--') ? first.indexOf('=') : -1
    const said = equals < 0 ? first : first.slice(0, equals)
    const name = Object.hasOwn(SHORT, said) ? (SHORT[said] ?? said) : said
    const takesNext =
      equals < 0 && !WITHOUT_VALUE.includes(name) && !(runArgs[index + 1] ?? '-').startsWith('-')
    const value = equals < 0 ? (takesNext ? (runArgs[++index] ?? '') : '') : first.slice(equals + 1)
    const add = (verdict: SafetyVerdict, reason: string): void =>
      void made.arguments.push({
        written: takesNext ? `${first} ${value}` : first,
        index: from,
        verdict,
        reason,
      })
    if (name === '--cap-add') made.capabilities.push(value)
    else if (name === '--security-opt') made.securityOptions.push(value)
    else if (name === '--mount') made.mounts.push(value)
    else if (name === '--privileged') made.isPrivileged = value !== 'false'
    else if (name === '--env' && /^[^=]+=/.test(value)) {
      const at = value.indexOf('=')
      made.variables[value.slice(0, at)] = value.slice(at + 1)
      add('honoured', 'as in containerEnv')
    } else if (name === '--user' && value !== '') {
      limits.user = value
      add('honoured', 'as containerUser')
    } else if (name === '--cpus' && Number(value) > 0) {
      limits.cpus = Number(value)
      add('honoured', 'as the size of the sandbox')
    } else if (name === '--memory' && memoryMib(value) !== undefined) {
      limits.memoryMib = memoryMib(value) ?? 0
      add('honoured', 'as the size of the sandbox')
    } else if (Object.hasOwn(NO_EFFECT, name)) add('no-effect', NO_EFFECT[name] ?? '')
    else add('refused', (Object.hasOwn(REFUSED, name) && REFUSED[name]) || 'a sandbox has no such option')
  }
  return { ...made, ...limits }
}

/** The engine counts in bytes, and its units are powers of 1024. */
function memoryMib(text: string): number | undefined {
  const [, digits, unit = 'b'] = /^([0-9]{1,12})([bkmg])?b?$/i.exec(text) ?? []
  if (digits === undefined) return undefined
  if (unit.toLowerCase() === 'm' || unit.toLowerCase() === 'g') return readMib(`${digits}${unit}iB`)
  return Math.ceil(Number(digits) / (unit.toLowerCase() === 'k' ? 1024 : 1024 ** 2))
}
