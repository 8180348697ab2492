/** Sandboxes of two levels of isolation beside each other: first outputs, and what work inside costs. */
import { readFileSync } from 'node:fs'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { allPids, poddPid, podhostOf, quietly } from '../support/host-view.ts'
import type { World } from '../support/world.ts'
import { duration } from './duration.ts'
import { roundRobin, type Summary, timed } from './measure.ts'
import { pssMib } from './memory.ts'
import type { Report } from './report.ts'

export interface Box {
  readonly name: string
  readonly box: Sandbox
}

/** What is done inside, each in seconds of the command itself. `{n}` is how much of it. */
const WORK: readonly {
  readonly name: string
  /** The program that it needs. */
  readonly program: string
  readonly prepare?: string
  readonly script: string
}[] = [
  {
    name: 'computing (Python, one core)',
    program: 'python3',
    script: 'python3 -c "sum(i * i for i in range({n} * 40000))"',
  },
  {
    name: 'system calls (getppid)',
    program: 'python3',
    script: 'python3 -c "import os\nfor _ in range({n} * 5000): os.getppid()"',
  },
  {
    name: 'small files (write, read, remove)',
    program: 'python3',
    script:
      "rm -rf ~/small; mkdir ~/small; python3 -c \"import os\nfor n in range({n} * 30): open(os.path.expanduser('~/small/%d' % n), 'w').write('x' * 1000)\nfor n in range({n} * 30): open(os.path.expanduser('~/small/%d' % n)).read()\"; rm -rf ~/small",
  },
  {
    name: 'git status in 5,000 files',
    program: 'git',
    prepare:
      "mkdir ~/tree && cd ~/tree && git init -q . && python3 -c \"import os\nfor n in range({n} * 50):\n  os.makedirs('d%d' % (n // 50), exist_ok=True); open('d%d/%d' % (n // 50, n), 'w').write(str(n))\" && git add -A && git -c user.name=a -c user.email=a@b commit -qm a && git status -s",
    script: 'cd ~/tree && git status -s',
  },
  {
    name: 'npm ci of 100 packages from archives',
    program: 'npm',
    prepare: `mkdir -p ~/ci/made && cd ~/ci && for n in $(seq {n}); do
      mkdir -p package/lib; echo "{\\"name\\":\\"made-$n\\",\\"version\\":\\"1.0.0\\"}" > package/package.json
      for f in 1 2 3 4 5 6 7 8; do echo "module.exports = $n" > package/lib/$f.js; done
      tar -czf made/made-$n.tgz package; done
      { printf '{"name":"ci","version":"1.0.0","dependencies":{'; for n in $(seq {n}); do printf '"made-%d":"file:made/made-%d.tgz",' $n $n; done; printf '"made-1":"file:made/made-1.tgz"}}'; } > package.json
      npm install --package-lock-only --offline --no-audit --no-fund >/dev/null`,
    script: 'cd ~/ci && npm ci --offline --no-audit --no-fund --ignore-scripts >/dev/null',
  },
]

export async function firstOutput(sandbox: Sandbox): Promise<number> {
  let at = Number.NaN
  for await (const { data } of sandbox.exec('echo', { args: ['x'] }).output())
    if (data.length > 0 && Number.isNaN(at)) at = performance.now()
  if (Number.isNaN(at)) throw new Error('no output')
  return at
}

/** What `make` made is added to `made`. */
export async function toFirstOutput(
  made: Sandbox[],
  make: () => Promise<Sandbox | undefined>,
): Promise<number> {
  const start = performance.now()
  const one = await make()
  if (!one) throw new Error('no sandbox')
  made.push(one)
  return (await firstOutput(one)) - start
}

/** The same work in both sandboxes. A program that the second one does not have is left out. */
export async function workInside(
  report: Report,
  { title, boxes, isQuick }: { title: string; boxes: readonly [Box, Box]; isQuick: boolean },
): Promise<void> {
  const n = isQuick ? '10' : '100'
  report.heading(`${title}: work inside, milliseconds of the command`)
  const rows: string[][] = []
  for (const { name, program, prepare, script } of WORK) {
    if ((await sh(boxes[1].box, `command -v ${program} || true`)) === '') continue
    for (const { box } of boxes) if (prepare !== undefined) await sh(box, prepare.replaceAll('{n}', n))
    const [plain, strong] = await roundRobin(
      boxes.map((one) => ({
        name: one.name,
        once: () => timed(() => sh(one.box, script.replaceAll('{n}', n))),
      })),
      isQuick ? 1 : 7,
      1,
    )
    if (!plain || !strong) throw new Error('both are measured')
    const ratio = (strong.p50 / plain.p50).toFixed(2)
    rows.push([name, plain.p50.toFixed(0), strong.p50.toFixed(0), ratio])
    report.keepLevel(name, boxes[0].name, '1')
    report.keepLevel(name, boxes[1].name, `${ratio} times as long`)
  }
  report.rows(['what', boxes[0].name, boxes[1].name, `to ${boxes[0].name}`], rows)
}

export async function sh(sandbox: Sandbox, script: string): Promise<string> {
  const { stdout, stderr, exitCode } = await sandbox.exec('sh', { args: ['-c', script] }).wait()
  if (exitCode !== 0) throw new Error(`${script.slice(0, 60)}: ${stderr}`)
  return stdout.trim()
}

/** Keeps medians for the page about levels of isolation. */
export function keepMedians(report: Report, what: string, rows: readonly Summary[]): void {
  for (const { name, p50 } of rows) report.keepLevel(what, name, duration(p50))
}

/** The memory of everything that runs for an idle sandbox. */
export async function keepIdleMemory(
  report: Report,
  world: World,
  boxes: readonly [Box, Box],
): Promise<void> {
  const podhost = podhostOf(world)
  for (const { name, box } of boxes) {
    const first = await poddPid(podhost, box.id)
    report.keepLevel('memory of an idle one', name, `${pssMib(withDescendants(first)).toFixed(1)} MiB`)
  }
  await podhost.close()
}

function withDescendants(first: number): Set<number> {
  const parents = new Map(
    allPids().map((pid) => {
      const status = quietly(() => readFileSync(`/proc/${pid}/status`, 'utf8')) ?? ''
      return [pid, Number(/^PPid:\t(\d+)$/m.exec(status)?.[1])]
    }),
  )
  const found = new Set([first])
  for (let before = 0; before < found.size; ) {
    before = found.size
    for (const [pid, parent] of parents) if (found.has(parent)) found.add(pid)
  }
  return found
}
