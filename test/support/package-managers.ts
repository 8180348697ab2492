/**
 * Package managers with nothing but their preset, and without it. Asks this machine's clients for their
 * registries.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { describe, test } from 'node:test'
import type { World } from './world.ts'

interface Manager {
  /** What must be on this machine, to be asked and to run. */
  readonly program: string
  readonly create?: readonly string[]
  readonly user?: string
  readonly install: string
  /** Prints the proof that the package is there. */
  readonly proof: string
  readonly expected: RegExp
  readonly refusedWithinMs: number
}

const SOON_MS = 20_000
const MANAGERS: Readonly<Record<string, Manager>> = {
  npm: {
    program: 'npm',
    install: 'mkdir -p ~/npm && cd ~/npm && npm install --no-audit --no-fund is-number',
    proof: 'cat ~/npm/node_modules/is-number/package.json',
    expected: /"name": "is-number"/,
    refusedWithinMs: SOON_MS,
  },
  pip: {
    program: 'pip',
    // Not the shim of a version manager, which fails afterwards where it cannot write.
    install: `"$(python3 -c 'import sys; print(sys.executable)')" -m pip install --no-cache-dir --disable-pip-version-check --target ~/pip six`,
    proof: 'ls ~/pip',
    expected: /^six\.py$/m,
    refusedWithinMs: SOON_MS,
  },
  apt: {
    program: 'apt-get',
    create: ['--base', 'debian', '--sudo'],
    user: 'root',
    install: 'apt-get update && apt-get install -y --no-install-recommends hello',
    proof: 'hello',
    expected: /Hello, world!/,
    refusedWithinMs: SOON_MS,
  },
  cargo: {
    program: 'cargo',
    install:
      'rm -rf ~/user-of-itoa && cargo new --vcs none ~/user-of-itoa && cd ~/user-of-itoa && cargo add itoa && cargo build',
    proof: 'ls ~/user-of-itoa/target/debug/deps',
    expected: /^libitoa-/m,
    refusedWithinMs: SOON_MS,
  },
  go: {
    program: 'go',
    install:
      'rm -rf ~/module && mkdir ~/module && cd ~/module && go mod init example.com/m && go get github.com/google/uuid@v1.6.0',
    proof: 'cat ~/module/go.sum; ls -d ~/go/pkg/mod/github.com/google/uuid@v1.6.0',
    expected: /uuid v1\.6\.0 h1:[\s\S]*uuid@v1\.6\.0$/m,
    refusedWithinMs: SOON_MS,
  },
  maven: {
    program: 'mvn',
    install: 'cd ~ && mvn -B -q dependency:get -Dartifact=junit:junit:4.13.2',
    proof: 'ls ~/.m2/repository/junit/junit/4.13.2',
    expected: /junit-4\.13\.2\.jar$/m,
    refusedWithinMs: 60_000,
  },
}

export function isHere(program: string): boolean {
  try {
    execFileSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

export async function hostsOf(world: World, preset: string): Promise<string[]> {
  const found = JSON.parse(await world.ok(['preset', 'ls', '--json'])) as { name: string; hosts: string[] }[]
  return found.find(({ name }) => name === preset)?.hosts ?? []
}

export async function sh(
  world: World,
  sandbox: string,
  script: string,
  { user = 'user' }: Pick<Manager, 'user'>,
): Promise<{ code: number; text: string }> {
  const words = ['exec', '--user', user, sandbox, '--', 'sh', '-c', script]
  const { code, stdout, stderr } = await world.cli(words)
  return { code, text: stdout + stderr }
}

/** The cases of the named package managers. */
export function describeManagers(world: World, names: readonly string[]): void {
  for (const [name, manager] of Object.entries(MANAGERS).filter(([one]) => names.includes(one))) {
    const skip = isHere(manager.program) ? false : `${manager.program} is not on this machine`
    describe(name, { skip }, () => {
      const create = (sandbox: string, ...options: readonly string[]): Promise<string> =>
        world.ok(['create', '--name', sandbox, ...(manager.create ?? []), ...options])

      test(`NET-9 with the preset ${name} alone a package is installed`, async () => {
        await create(name, '--preset', name)
        const { code, text } = await sh(world, name, manager.install, manager)
        assert.equal(code, 0, `${text}\n${await world.ok(['net', 'log', '--denied', name])}`)
        const proof = await sh(world, name, manager.proof, manager)
        assert.match(proof.text, manager.expected)
        await world.ok(['destroy', name])
      })

      test(`NET-9 without the preset ${name} the installation fails soon, and the refusal names the host`, async () => {
        const sandbox = `${name}-without`
        // The preset also says where the client inside fetches from; the rules are what is left out.
        await create(sandbox, '--preset', name)
        const hosts = await hostsOf(world, name)
        assert.ok(hosts.length > 0)
        await world.ok(['allow', '--forget', sandbox, ...hosts])
        const at = performance.now()
        const { text } = await sh(world, sandbox, manager.install, manager)
        const tookMs = performance.now() - at
        assert.doesNotMatch((await sh(world, sandbox, manager.proof, manager)).text, manager.expected)
        assert.ok(tookMs < manager.refusedWithinMs, `it took ${Math.round(tookMs)} ms: ${text}`)
        const log = await world.ok(['net', 'log', '--denied', sandbox])
        const names = hosts.map((host) => host.replace(/:\d+$/, ''))
        assert.ok(
          names.some((host) =>
            new RegExp(`denied .*${host.replaceAll('.', '\\.')}.*\\[rule\\.none\\]`).test(log),
          ),
          `the log names the host: ${log}\n${text}`,
        )
        await world.ok(['destroy', sandbox])
      })
    })
  }
}
