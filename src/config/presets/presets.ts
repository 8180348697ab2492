/** Presets as rules. A client's answer is cached for a day, because asking can take seconds. */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import * as z from 'zod'
import { AgentPodError } from '../../core/error.ts'
import { parseRule, type Rule } from '../../policy/rule.ts'
import { makeDirectory } from '../../util/file/make-directory.ts'
import { DATA_PRESETS, isClientPreset, parsePresetName } from './catalog.ts'
import { askClient, type ClientAnswer, type ClientQuery } from './client.ts'

const FILE = 'presets.json'
const FRESH_MS = 24 * 3_600_000

const answer = z.object({
  hosts: z.array(z.string()),
  variables: z.record(z.string(), z.string()).default({}),
  files: z.array(z.object({ path: z.string(), text: z.string() })).default([]),
})
const schema = z.object({
  /** Hosts that the user set with `agentpod preset set`. */
  set: z.record(z.string(), z.object({ hosts: z.array(z.string()) })).default({}),
  /** Answers of clients, with the time. */
  asked: z.record(z.string(), answer.extend({ at: z.number() })).default({}),
})
type Kept = z.infer<typeof schema>

export interface Preset extends ClientAnswer {
  readonly name: string
  readonly from: 'user' | 'client' | 'data'
  readonly rules: readonly Rule[]
}

export class Presets {
  readonly #home: string
  readonly #asking: ClientQuery
  readonly #now: () => number

  constructor(o: { readonly home: string; readonly asking: ClientQuery; now(): number }) {
    this.#home = o.home
    this.#asking = o.asking
    this.#now = o.now
  }

  /** Throws `failed_precondition` if the client is not installed and the user has not set its hosts. */
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

  /** Sets the hosts of a preset; an empty list removes the setting. */
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
        hint: 'remove it; presets are detected again, and those you set have to be set again',
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

/**
 * Hosts from this machine's clients or from the user may be mirrors on private addresses; the built-in ones
 * may not.
 */
function presetOf(name: string, from: Preset['from'], answer: ClientAnswer): Preset {
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

function mutable({ hosts, variables, files }: ClientAnswer): z.infer<typeof answer> {
  return { hosts: [...hosts], variables: { ...variables }, files: [...files] }
}

function silent(name: string): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'preset.unasked',
    message: `${name} is not installed on this machine, so its registry is not known`,
    hint: `set its hosts with \`agentpod preset set ${name} HOST...\``,
  })
}
