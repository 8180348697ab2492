/** Environments: finding out what a project needs, building it, and starting with what is built. */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { detect } from '../../src/config/detect/detect.ts'
import { listProject } from '../../src/sync/project-files.ts'
import { GitProject } from '../../src/sync/testing/git-project.ts'
import { treeOf } from '../../src/workbench/environment/detect-project.ts'
import { ROOT, World } from '../support/world.ts'
import { roundRobin, summarize, timed } from './measure.ts'
import type { Report } from './report.ts'

const PACKAGES = 500
const FILES_EACH = 98

export async function environments(report: Report, o: { readonly rounds: number }): Promise<void> {
  await using world = new World()
  await detection(report, world, o.rounds)
  await builds(report, world, o.rounds)
}

/** 50,000 files: packages in four languages, one workspace. */
function monorepo(world: World): string {
  const directory = world.directory()
  writeFileSync(
    join(directory, 'package.json'),
    JSON.stringify({ name: 'all', private: true, workspaces: ['node/*'] }),
  )
  for (let number = 0; number < PACKAGES; number++) {
    const kind = ['node', 'python', 'go', 'rust'][number % 4] ?? 'node'
    const place = join(directory, kind, `p${number}`)
    mkdirSync(join(place, 'src'), { recursive: true })
    const [name, text] = MANIFESTS[kind] ?? ['package.json', '{}']
    writeFileSync(join(place, name), text.replaceAll('NAME', `p${number}`))
    writeFileSync(join(place, 'README.md'), `# p${number}\n`)
    for (let file = 0; file < FILES_EACH; file++) writeFileSync(join(place, 'src', `f${file}.txt`), 'text\n')
  }
  execFileSync('git', ['init', '-q'], { cwd: directory })
  execFileSync('git', ['add', '-A'], { cwd: directory })
  return directory
}

const MANIFESTS: Readonly<Record<string, readonly [string, string]>> = {
  node: [
    'package.json',
    '{"name":"NAME","version":"1.0.0","scripts":{"test":"node --test"},"dependencies":{"ms":"2.1.3"}}',
  ],
  python: [
    'pyproject.toml',
    '[project]\nname = "NAME"\nversion = "1"\nrequires-python = ">=3.10"\ndependencies = ["six"]\n',
  ],
  go: ['go.mod', 'module example.com/NAME\n\ngo 1.24\n'],
  rust: ['Cargo.toml', '[package]\nname = "NAME"\nversion = "0.1.0"\nedition = "2021"\n'],
}

async function detection(report: Report, world: World, rounds: number): Promise<void> {
  const directory = monorepo(world)
  const listing = { directory, exclude: [], env: process.env }
  const files = await listProject(listing)
  const { findings } = detect(treeOf({ directory, files }))
  report.heading(`Detection in a monorepo of ${files.length} files, ${findings.length} projects found`)
  const git = 'git ls-files, the floor'
  const rows = await roundRobin(
    [
      {
        name: git,
        once: () =>
          timed(
            async () =>
              void execFileSync('git', ['ls-files', '-co', '--exclude-standard'], {
                cwd: directory,
                maxBuffer: 1 << 26,
              }),
          ),
      },
      { name: 'listing the files', once: () => timed(() => listProject(listing)) },
      { name: 'detection', once: () => timed(async () => detect(treeOf({ directory, files }))) },
    ],
    Math.min(rounds, 10),
    1,
  )
  report.table(rows, git)
}

async function builds(report: Report, world: World, rounds: number): Promise<void> {
  const project = new GitProject(world.directory(), process.env['PATH'] ?? '').init()
  const directory = project.root
  cpSync(join(ROOT, 'examples', 'environments', 'node'), directory, { recursive: true })
  project.commitAll()
  const call = (...args: string[]): Promise<number> => timed(() => world.ok(args, { cwd: directory }))
  // The server, the presets and what the machine has are asked for once.
  await world.ok(['config', 'explain'], { cwd: directory })
  report.heading('The environment of a small project in Node')
  const cold = await call('build')
  await world.ok(['prune', '--keep', '0GB'])
  const again = await call('build')
  report.table([
    summarize('build, nothing is there', [cold]),
    summarize('build, packages were downloaded before', [again]),
  ])
  let commit = 0
  report.say('')
  const floor = 'node -e 0'
  report.table(
    await roundRobin(
      [
        { name: 'agentpod run -- true, environment is built', once: () => call('run', '--', 'true') },
        {
          name: 'the same after a commit that leaves the lockfile',
          once: () => {
            project.write('index.js', `export const commit = ${commit++}\n`)
            project.commitAll()
            return call('run', '--', 'true')
          },
        },
        { name: 'agentpod run --bare -- true', once: () => call('run', '--bare', '--', 'true') },
        { name: floor, once: () => timed(async () => void execFileSync(process.execPath, ['-e', '0'])) },
      ],
      Math.min(rounds, 20),
    ),
    floor,
  )
}
