/** Starts what builds environments and what runs agents, on top of the engine. */
import { availableParallelism, homedir } from 'node:os'
import { Builder } from '../build/builder.ts'
import { InputFiles } from '../build/input-files.ts'
import type { PackagePresets } from '../build/package-presets.ts'
import { Toolchains } from '../build/toolchains.ts'
import { Presets } from '../config/presets/presets.ts'
import type { Engine } from '../engine/engine.ts'
import { writeRule } from '../policy/rule.ts'
import { Runs } from '../runs/runs.ts'
import { runJournal } from '../store/run-journal.ts'
import { runStore } from '../store/runs.ts'
import { systemClock } from '../util/clock.ts'
import { systemRandom } from '../util/random.ts'
import { hostFingerprint } from './host-tools.ts'
import type { ServerSetup, ServerState } from './server-setup.ts'

const DEFAULT_KEPT_RUNS = 100

/** Agents mostly wait for their models, so there may be more of them than processors. */
function runsAtOnce(): number {
  return Math.max(4, availableParallelism() * 4)
}

export interface StartedBuilds {
  readonly builder: Builder
  readonly files: InputFiles
  readonly toolchains: Toolchains
  readonly presets: PackagePresets
}

export async function startBuilds(
  { home, log }: ServerSetup,
  { sandboxes }: ServerState,
  engine: Engine,
): Promise<StartedBuilds> {
  const files = new InputFiles({ directory: home.buildFiles, clock: systemClock, random: systemRandom })
  const builder = new Builder({ engine, files, arch: process.arch, clock: systemClock, log })
  await builder.open()
  const toolchains = new Toolchains({
    engine,
    fingerprint: () => hostFingerprint(process.env),
    kept: {
      get: () => sandboxes.meta('host-tools'),
      set: (text) => sandboxes.setMeta('host-tools', text),
    },
  })
  return { builder, files, toolchains, presets: packagePresets(home) }
}

/** The registries that package managers of this machine use, as the user who runs the server has set them. */
function packagePresets({ root }: ServerSetup['home']): PackagePresets {
  const presets = new Presets({
    home: root,
    asking: { env: process.env, home: homedir() },
    now: () => systemClock.now(),
  })
  return {
    async get(name) {
      const { rules, variables, files } = await presets.get(name)
      return { rules: rules.map(writeRule), variables, files }
    },
  }
}

export function startRuns(
  { options, home, log, scope }: ServerSetup,
  { state, events }: ServerState,
  engine: Engine,
): Runs {
  const runs = new Runs({
    engine,
    store: runStore(state),
    journal: runJournal(events),
    directory: home.runs,
    atOnce: options.limits?.runs ?? runsAtOnce(),
    mostKept: options.limits?.keptRuns ?? DEFAULT_KEPT_RUNS,
    clock: systemClock,
    random: systemRandom,
    log,
  })
  runs.open()
  scope.defer(() => runs.close())
  return runs
}
