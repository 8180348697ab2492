/**
 * The variables that the shell of a devcontainer's user sets. The shell is started once in a sandbox without
 * network, and the answer is kept for this environment.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import * as z from 'zod'
import { parseShellEnv, probeArguments } from '../../config/plan/devcontainer/probed-env.ts'
import { canonicalJson } from '../../util/canonical-json.ts'
import { makeDirectory } from '../../util/file/make-directory.ts'
import { writeDurably } from '../../util/file/write-durably.ts'
import { randomWord, systemRandom } from '../../util/random.ts'
import { sha256Hex } from '../../util/sha256.ts'
import { environmentOf, type PreparedPlan } from '../environment/plan-environment.ts'
import type { Workbench } from '../workbench.ts'

const PROBE_MS = 30_000
const TTL_MS = 5 * 60_000
const MOST_OUTPUT = 1024 * 1024
const kept = z.record(z.string(), z.string())

export async function probeEnvironment(
  bench: Workbench,
  { plan, provider }: PreparedPlan,
  digest: string | undefined,
): Promise<Record<string, string>> {
  const probe = plan.devcontainer?.plan.userEnvProbe ?? 'none'
  if (!plan.devcontainer || probe === 'none') return {}
  const { base, image, variables, user } = environmentOf(plan, digest)
  const key = sha256Hex(canonicalJson({ base, image, digest, variables, user, probe, form: 1 }))
  const file = join(bench.home.root, 'cache', 'probes', `${key}.json`)
  const known = readKept(file) ?? (await probed(bench, { plan, provider, digest, probe }))
  makeDirectory(join(bench.home.root, 'cache', 'probes'), 0o700)
  writeDurably(file, Buffer.from(JSON.stringify(known)))
  // What the file says about processes, and what agentpod.toml says, goes before the shell.
  const fixed = new Set([
    ...Object.keys(plan.devcontainer.plan.remoteEnv),
    ...plan.variables.filter(({ rank }) => rank !== 'devcontainer').map(({ name }) => name),
  ])
  return Object.fromEntries(Object.entries(known).filter(([name]) => !fixed.has(name)))
}

async function probed(
  bench: Workbench,
  o: Pick<PreparedPlan, 'plan' | 'provider'> & {
    readonly digest: string | undefined
    readonly probe: Parameters<typeof probeArguments>[0]
  },
): Promise<Record<string, string>> {
  const { services: _, start: __, ...environment } = environmentOf(o.plan, o.digest)
  const pod = await bench.client()
  using progress = bench.person.progress({})
  progress.status(`reading the variables of ${o.plan.user}`)
  const sandbox = await pod.create({
    ...(o.provider !== undefined && { provider: o.provider }),
    environment: { ...environment, sudo: false },
    labels: { 'agentpod/preparing': 'variables' },
    network: { mode: 'off' },
    lifetime: { ttlMs: TTL_MS, whenOver: 'destroy' },
  })
  const mark = randomWord(systemRandom, 24)
  try {
    const child = sandbox.exec('/bin/sh', {
      args: probeArguments(o.probe, mark),
      user: o.plan.user,
      cwd: '/',
      timeoutMs: PROBE_MS,
    })
    const parts: Buffer[] = []
    let bytes = 0
    for await (const { stream, data } of child.output()) {
      if (stream === 'stderr' || bytes > MOST_OUTPUT) continue
      bytes += data.length
      parts.push(data)
    }
    return parseShellEnv(Buffer.concat(parts), mark)
  } finally {
    await sandbox.destroy()
  }
}

function readKept(file: string): Record<string, string> | undefined {
  try {
    return kept.parse(JSON.parse(readFileSync(file, 'utf8')))
  } catch {
    return undefined
  }
}
