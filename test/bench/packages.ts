/**
 * Installing packages inside a sandbox beside the same on the machine itself, from registries on the test
 * internet. Every installation begins with an empty home: nothing is cached by the client.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { Internet, noInternet, SITE } from '../support/internet.ts'
import { roundRobin, timed } from './measure.ts'
import { which } from './peers.ts'
import type { Report } from './report.ts'

const HOST = 'packages.example'
const PORT = 8097
const ADDRESS = `http://${HOST}:${PORT}`

interface Manager {
  readonly program: string
  /** A script for sh in an empty directory, which is also the home. `$1` is the number of packages. */
  readonly install: string
}

const numbers = 'n=0; while [ $n -lt $1 ]; do'
const next = 'n=$((n + 1)); done'
const MANAGERS: Readonly<Record<string, Manager>> = {
  npm: {
    program: 'npm',
    install: `{ printf '{"dependencies":{'; ${numbers} printf '"made-%d":"1.0.0",' $n; ${next}; printf '"made-0":"1.0.0"}}'; } > package.json
      npm install --registry ${ADDRESS}/npm --no-audit --no-fund --ignore-scripts --update-notifier=false`,
  },
  pip: {
    program: 'pip',
    install: `${numbers} echo made-$n; ${next} > wanted.txt
      "$(python3 -c 'import sys; print(sys.executable)')" -m pip install -q --no-cache-dir --no-deps --disable-pip-version-check \\
        --index-url ${ADDRESS}/pip/simple --trusted-host ${HOST} --target installed -r wanted.txt`,
  },
  go: {
    program: 'go',
    install: `{ printf 'module example.com/m\\n\\ngo 1.19\\n'; ${numbers} echo "require example.com/made-$n v1.0.0"; ${next}; } > go.mod
      GOPATH=$PWD/go GOCACHE=$PWD/cache GOPROXY=${ADDRESS}/go GOSUMDB=off GOTOOLCHAIN=local GOFLAGS=-modcacherw go mod download`,
  },
  cargo: {
    program: 'cargo',
    install: `mkdir -p src .cargo && : > src/lib.rs
      printf '[source.crates-io]\\nreplace-with = "made"\\n[source.made]\\nregistry = "sparse+${ADDRESS}/cargo/"\\n' > .cargo/config.toml
      { printf '[package]\\nname = "p"\\nversion = "1.0.0"\\nedition = "2021"\\n[dependencies]\\n'; ${numbers} echo "made-$n = \\"1\\""; ${next}; } > Cargo.toml
      CARGO_HOME=$PWD/cargo cargo fetch -q`,
  },
}

/** Static files. */
const SERVER = `
const { createReadStream, statSync } = require('node:fs')
const [root, port] = process.argv.slice(1)
const find = (path) => [path, path + '.json', path + '/index.html'].map((one) => root + one)
  .find((one) => statSync(one, { throwIfNoEntry: false })?.isFile())
require('node:http').createServer((asked, answer) => {
  const file = find(new URL(asked.url, 'http://x').pathname.replace(/[/]$/, ''))
  if (!file) return answer.writeHead(404).end()
  const type = file.endsWith('.html') ? 'text/html' : file.endsWith('.json') ? 'application/json' : 'application/octet-stream'
  answer.writeHead(200, { 'content-type': type, 'content-length': statSync(file).size })
  createReadStream(file).pipe(answer)
}).listen(Number(port), '0.0.0.0', () => console.log('ready'))`

export async function packages(report: Report, o: { readonly isQuick: boolean }): Promise<void> {
  report.heading('Installing packages, nothing cached, from a server on the same machine')
  const reason = noInternet()
  if (reason) return report.say(`Not measured: ${reason}.`)
  const count = o.isQuick ? 10 : 100
  const scratch = mkdtempSync(join(tmpdir(), 'agentpod-registries-'))
  let server: ChildProcess | undefined
  try {
    const made = join(scratch, 'made')
    execFileSync('python3', [join(import.meta.dirname, 'make-registries.py'), made, ADDRESS, String(count)])
    await using internet = await Internet.open([HOST])
    internet.name(HOST, [SITE])
    server = await serve(internet, made)
    await using world = internet.world()
    const sandbox = await world.client().create({ network: { allow: [`${HOST}:${PORT}`] } })
    // The Node that runs this is in front of the PATH here, and another one runs npm inside.
    const { stdout: path } = await sandbox.exec('sh', { args: ['-c', 'printf %s "$PATH"'] }).wait()
    report.say(`${count} packages of 12 files; every installation has a home of its own.\n`)
    const here = Object.entries(MANAGERS).filter(([, { program }]) => which(program))
    for (const [name, manager] of here) {
      const host = `${name}, on the machine itself`
      const cases = [
        { name: host, once: () => timed(() => onMachine(internet, { scratch, path }, manager, count)) },
        { name: `${name}, in a sandbox`, once: () => timed(() => inside(sandbox, manager, count)) },
      ]
      report.table(await roundRobin(cases, o.isQuick ? 1 : 5, 1), host)
      report.say('')
    }
    report.say('An installation inside may take 1.15 times as long as on the machine.')
    await sandbox.destroy()
  } finally {
    server?.kill('SIGKILL')
    rmSync(scratch, { recursive: true, force: true })
  }
}

async function serve(internet: Internet, directory: string): Promise<ChildProcess> {
  const words = ['-t', String(internet.network.pid), '-n', '--', process.execPath, '-e', SERVER, directory]
  const server = spawn('nsenter', [...words, String(PORT)], { stdio: ['ignore', 'pipe', 'inherit'] })
  await Promise.race([once(server.stdout, 'data'), once(server, 'exit')])
  if (server.exitCode !== null) throw new Error(`the server of packages ended with ${server.exitCode}`)
  return server
}

/** In a new directory, which is removed afterwards. rustup finds its toolchains by the home. */
const alone = (install: string): string =>
  `set -e; d=$(mktemp -d); cd "$d"; export RUSTUP_HOME="\${RUSTUP_HOME:-$HOME/.rustup}" HOME="$d"\n(${install}) >log 2>&1 || { cat log >&2; exit 1; }\ncd /; rm -rf "$d"`

/**
 * With the programs that the sandbox finds. The machine's own directory for temporary files is where its
 * state directory would be.
 */
async function onMachine(
  internet: Internet,
  { scratch, path }: { readonly scratch: string; readonly path: string },
  { install }: Manager,
  count: number,
): Promise<void> {
  const script = `TMPDIR=${scratch}; PATH='${path}'; export TMPDIR PATH\n${alone(install)}`
  await internet.onHost('sh', '-c', script, 'sh', String(count))
}

async function inside(sandbox: Sandbox, { install }: Manager, count: number): Promise<void> {
  const script = `TMPDIR=/var/tmp; export TMPDIR\n${alone(install)}`
  const { exitCode, stderr } = await sandbox.exec('sh', { args: ['-c', script, 'sh', String(count)] }).wait()
  if (exitCode !== 0) throw new Error(`installing gave ${exitCode}: ${stderr}`)
}
