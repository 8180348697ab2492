/** The record of each sandbox, one file each. A later server finds its sandboxes by these files alone. */
import { mkdirSync, readFileSync } from 'node:fs'
import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type OwnerLabel, parseOwner, parseSandboxId, type SandboxId } from 'agentpod/provider'

/** A process by its number and start time: the number alone may have been reused. */
export interface Process {
  readonly pid: number
  readonly startTime: string
}

export interface Entry extends Process {
  readonly sandboxId: SandboxId
  readonly owner: OwnerLabel
  /** The token that a connection to podd needs. */
  readonly token: string
}

export class Records {
  readonly directory: string

  constructor(directory: string) {
    this.directory = directory
  }

  /** Where the supervisor writes how podd ended. */
  exitFile(id: SandboxId): string {
    return join(this.directory, `${id}.exit`)
  }

  logFile(id: SandboxId): string {
    return join(this.directory, `${id}.log`)
  }

  prepare(): void {
    mkdirSync(this.directory, { recursive: true, mode: 0o700 })
  }

  async write(entry: Entry): Promise<void> {
    const file = this.#file(entry.sandboxId)
    await writeFile(`${file}.new`, JSON.stringify(entry), { mode: 0o600 })
    await rename(`${file}.new`, file)
  }

  async read(id: SandboxId): Promise<Entry | undefined> {
    const text = await readFile(this.#file(id), 'utf8').catch(unlessMissing)
    return text === undefined ? undefined : parseEntry(text)
  }

  async all(): Promise<Entry[]> {
    const names = (await readdir(this.directory).catch(unlessMissing)) ?? []
    const ids = names
      .filter((name) => name.endsWith('.json'))
      .map((name) => parseSandboxId(name.slice(0, -5)))
    const entries = await Promise.all(ids.map((id) => this.read(id)))
    return entries.filter((entry) => entry !== undefined)
  }

  /** The entry is removed last, so that an interrupted removal is found and repeated. */
  async remove(id: SandboxId): Promise<void> {
    for (const file of [this.exitFile(id), this.logFile(id), this.#file(id)]) await rm(file, { force: true })
  }

  async exitCode(id: SandboxId): Promise<number | undefined> {
    const text = await readFile(this.exitFile(id), 'utf8').catch(unlessMissing)
    return text === undefined ? undefined : Number(text)
  }

  #file(id: SandboxId): string {
    return join(this.directory, `${id}.json`)
  }
}

function parseEntry(text: string): Entry {
  const { sandboxId, owner, pid, startTime, token } = JSON.parse(text) as Record<string, unknown>
  if (!Number.isInteger(pid) || typeof startTime !== 'string' || typeof token !== 'string')
    throw new Error('a record of a sandbox is malformed')
  return {
    sandboxId: parseSandboxId(String(sandboxId)),
    owner: parseOwner(String(owner)),
    pid: Number(pid),
    startTime,
    token,
  }
}

/** Parses a line of /proc/PID/stat. The name of the program is in brackets and may contain any character. */
export function parseStat(line: string): Process & { readonly state: string } {
  const fields = line.slice(line.lastIndexOf(')') + 2).split(' ')
  return { pid: Number.parseInt(line, 10), state: fields[0] ?? '', startTime: fields[19] ?? '' }
}

/** A process that has ended and waits for its parent is not alive. */
export function isAlive({ pid, startTime }: Process): boolean {
  try {
    const now = parseStat(readFileSync(`/proc/${pid}/stat`, 'latin1'))
    return now.startTime === startTime && now.state !== 'Z'
  } catch {
    return false
  }
}

export function kill(one: Process): void {
  try {
    if (isAlive(one)) process.kill(one.pid, 'SIGKILL')
  } catch (error) {
    // It ended meanwhile.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

function unlessMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}
