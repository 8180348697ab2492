/** Presets as rules. What a client said is remembered for a day, since asking takes up to seconds. */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { AgentPodError } from '../../core/error.ts'
import { parseRule, type Rule } from '../../policy/rule.ts'
import { makeDirectory } from '../../util/make-directory.ts'
import { DATA_PRESETS, isClientPreset, parsePresetName } from './catalog.ts'
import { type Answer, type Asking, askClient } from './client.ts'

const FILE = 'presets.json'
const FRESH_MS = 24 * 3_600_000

const answer = z.object({
  hosts: z.array(z.string()),
  variables: z.record(z.string(), z.string()).default({}),
  files: z.array(z.object({ path: z.string(), text: z.string() })).default([]),
})
const schema = z.object({
  /** What the user named with `agentpod preset set`. */
  set: z.record(z.string(), z.object({ hosts: z.array(z.string()) })).default({}),
  /** What clients said, and when. */
  asked: z.record(z.string(), answer.extend({ at: z.number() })).default({}),
})
type Kept = z.infer<typeof schema>

export interface Preset extends Answer {
  readonly name: string
  readonly from: 'user' | 'client' | 'data'
  readonly rules: readonly Rule[]
}

export class Presets {
  readonly #home: string
  readonly #asking: Asking
  readonly #now: () => number

  constructor(o: { readonly home: string; readonly asking: Asking; now(): number }) {
    this.#home = o.home
    this.#asking = o.asking
    this.#now = o.now
  }

  /** `failed_precondition` where the client is not on this machine and the user has not named its hosts. */
  async get(name: string, o: { readonly fresh?: boolean } = {}): Promise<Preset> {
    parsePresetName(name)
    const kept = this.#read()
    const set = kept.set[name]
    if (set) return presetOf(name, 'user', { ...set, variables: {}, files: [] })
    const data = DATA_PRESETS[name]
    if (data) return presetOf(name, 'data', { hosts: data, variables: {}, files: [] })
    const known = kept.asked[name]
    if (known && !o.fresh && this.#now() - known.at < FRESH_MS) return presetOf(name, 'client', known)
    const asked = isClientPreset(name) ? await askClient(name, this.#asking) : undefined
    if (!asked) throw silent(name)
    const now = this.#read()
    this.#write({ ...now, asked: { ...now.asked, [name]: { ...mutable(asked), at: this.#now() } } })
    return presetOf(name, 'client', asked)
  }

  /** Names the hosts of a preset; none of them takes the name back. */
  set(name: string, hosts: readonly string[]): void {
    parsePresetName(name)
    const kept = this.#read()
    const { [name]: _, ...others } = kept.set
    for (const host of hosts) parseRule(readHost(host), `preset ${name}`)
    this.#write({ ...kept, set: hosts.length === 0 ? others : { ...others, [name]: { hosts: [...hosts] } } })
  }

  #read(): Kept {
    try {
      return schema.parse(JSON.parse(readFileSync(join(this.#home, FILE), 'utf8')))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { set: {}, asked: {} }
      throw new AgentPodError({
        code: 'data_loss',
        reason: 'presets.damaged',
        message: `${join(this.#home, FILE)} is damaged`,
        hint: 'remove it; clients are asked again, and what you set has to be set again',
        cause: error,
      })
    }
  }

  #write(kept: Kept): void {
    makeDirectory(this.#home, 0o700)
    const draft = join(this.#home, `${FILE}.${process.pid}`)
    writeFileSync(draft, JSON.stringify(kept, null, 2), { mode: 0o600 })
    renameSync(draft, join(this.#home, FILE))
  }
}

/** What this machine's own clients use, or the user named, may be a mirror in a private network; what is written here may not. */
function presetOf(name: string, from: Preset['from'], answer: Answer): Preset {
  const rules = answer.hosts.map((host) => {
    const rule = readHost(host)
    return parseRule(from === 'data' ? rule : { ...rule, private: true }, `preset ${name}`)
  })
  return { ...answer, name, from, rules }
}

function readHost(text: string): { host: string; ports?: number[] } {
  const [, host = '', port] = /^(.*?)(?::(\d+))?$/.exec(text) ?? []
  return port === undefined ? { host } : { host, ports: [Number(port)] }
}

function mutable({ hosts, variables, files }: Answer): z.infer<typeof answer> {
  return { hosts: [...hosts], variables: { ...variables }, files: [...files] }
}

function silent(name: string): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'preset.unasked',
    message: `this machine has no ${name} to ask where it fetches from`,
    hint: `name its hosts once: \`agentpod preset set ${name} HOST...\``,
  })
}
