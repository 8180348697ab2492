/** Starts what builds environments and what runs agents, on top of the engine. */
import { availableParallelism, homedir } from 'node:os'
import { Builder } from '../build/builder.ts'
import { DockerfileBuilder } from '../build/dockerfile/dockerfile-builder.ts'
import { FrontEnd } from '../build/dockerfile/front-end.ts'
import { OwnLayers } from '../build/dockerfile/own-layers.ts'
import { InputFiles } from '../build/input-files.ts'
import type { PackagePresets } from '../build/package-presets.ts'
import { Toolchains } from '../build/toolchains.ts'
import { Presets } from '../config/presets/presets.ts'
import type { Engine } from '../engine/engine.ts'
import { writeRule } from '../policy/rule.ts'
import { podimageProgram } from '../providers/local/images/podimage.ts'
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
  /** Left out if podimage or podfiles is not built. */
  readonly dockerfiles: DockerfileBuilder | undefined
  readonly files: InputFiles
  readonly toolchains: Toolchains
  readonly presets: PackagePresets
}

export async function startBuilds(
  setup: ServerSetup,
  { sandboxes }: ServerState,
  engine: Engine,
): Promise<StartedBuilds> {
  const { home, log } = setup
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
  const dockerfiles = openDockerfiles(setup, { engine, files, builder, sandboxes })
  return { builder, dockerfiles, files, toolchains, presets: packagePresets(home) }
}

const CONTEXTS = 'build-contexts'

function openDockerfiles(
  { options, log }: ServerSetup,
  {
    engine,
    files,
    builder,
    sandboxes,
  }: Pick<StartedBuilds, 'files' | 'builder'> & Pick<ServerState, 'sandboxes'> & { readonly engine: Engine },
): DockerfileBuilder | undefined {
  const { podimage, podfiles } = options.programs
  if (podimage === undefined || podfiles === undefined) return undefined
  const run = podimageProgram(podimage, process.env, options.upstreamProxy)
  return new DockerfileBuilder({
    engine,
    files,
    frontEnd: new FrontEnd(run, `linux/${process.arch === 'x64' ? 'amd64' : process.arch}`),
    ownLayers: new OwnLayers({
      podfiles,
      log,
      kept: {
        get: () => (sandboxes.meta(CONTEXTS) ?? '').split(' ').filter((one) => one !== ''),
        set: (digests) => sandboxes.setMeta(CONTEXTS, digests.join(' ')),
      },
    }),
    arch: process.arch,
    clock: systemClock,
    random: systemRandom,
    log,
    hold: (key) => builder.hold(key),
  })
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
