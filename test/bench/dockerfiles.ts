/** Dockerfiles: built again after one line changed, and after nothing did; beside Docker's own builder. */
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { DockerDaemon, NO_DOCKER } from '../support/docker-daemon.ts'
import { putBases } from '../support/dockerfiles.ts'
import { NO_BUSYBOX } from '../support/tiny-images.ts'
import { ToyRegistry } from '../support/toy-registry.ts'
import { World } from '../support/world.ts'
import { type Case, roundRobin, timed } from './measure.ts'
import type { Report } from './report.ts'

const STEPS = 5
const FILES = 200

export async function dockerfileBuilds(report: Report, o: { readonly rounds: number }): Promise<void> {
  report.heading(`A Dockerfile of ${STEPS} RUN lines and a context of ${FILES} files`)
  if (NO_BUSYBOX) return report.say(`Not here: ${NO_BUSYBOX}.`)
  await using world = new World()
  await using registry = await ToyRegistry.start()
  const { BASE: base = '' } = putBases(registry)
  writeFileSync(join(world.home, 'config.toml'), `[registries."${registry.host}"]\ninsecure = true\n`)
  const ours = new Context(world.directory(), base)
  const build = (): Promise<unknown> =>
    world.ok(['build', '-f', ours.file, '-t', 'bench/dockerfile', ours.directory])
  const cases = casesOf('agentpod', ours, build)
  if (NO_DOCKER) {
    report.say(`Docker is not here: ${NO_DOCKER}.\n`)
    return report.table(await roundRobin(cases, Math.min(o.rounds, 10), 1))
  }
  await using daemon = await DockerDaemon.start()
  const theirs = new Context(world.directory(), base)
  // Debian's own client has BuildKit's session built in.
  const program = existsSync('/usr/bin/docker') ? '/usr/bin/docker' : 'docker'
  const words = ['build', '-q', '--network', 'none', '-t', 'bench/dockerfile', '-f', theirs.file]
  const env = { ...daemon.env, DOCKER_BUILDKIT: '1' }
  const byDocker = (): Promise<unknown> => promisify(execFile)(program, [...words, theirs.directory], { env })
  cases.push(...casesOf('docker', theirs, byDocker))
  report.table(await roundRobin(cases, Math.min(o.rounds, 10), 1))
}

function casesOf(name: string, context: Context, build: () => Promise<unknown>): Case[] {
  return [
    {
      name: `${name}: one changed RUN line, the last`,
      once: () => {
        context.changeLine()
        return timed(build)
      },
    },
    { name: `${name}: nothing changed`, once: () => timed(build) },
    {
      name: `${name}: one changed file, which the last two lines read`,
      once: () => {
        context.changeFile()
        return timed(build)
      },
    },
  ]
}

/** Both builders have one of their own, so that neither warms the other. */
class Context {
  readonly directory: string
  readonly file: string
  readonly #base: string
  #line = 0
  #content = 0

  constructor(directory: string, base: string) {
    this.directory = directory
    this.file = join(directory, 'Dockerfile')
    this.#base = base
    mkdirSync(join(directory, 'src'))
    for (let at = 0; at < FILES; at++)
      writeFileSync(join(directory, 'src', `${at}.txt`), `${at}\n`.repeat(500))
    this.changeFile()
    this.#write()
  }

  changeLine(): void {
    this.#line += 1
    this.#write()
  }

  changeFile(): void {
    this.#content += 1
    writeFileSync(join(this.directory, 'last.txt'), `${this.#content}\n`)
  }

  #write(): void {
    const runs = Array.from({ length: STEPS - 1 }, (_, at) => `RUN echo ${at} > /step${at}`)
    const last = `RUN cat /last.txt > /made && echo ${this.#line} >> /made`
    const lines = [`FROM ${this.#base}`, 'COPY src /src', ...runs, 'COPY last.txt /', last]
    writeFileSync(this.file, `${lines.join('\n')}\n`)
  }
}
