/**
 * A new user of this machine with AgentPod installed where that user can read it. All of it is removed at the
 * end.
 */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from './world.ts'

export interface OrdinaryUser extends Disposable {
  readonly name: string
  readonly uid: number
  readonly gid: number
  readonly home: string
  /** The installed `agentpod`. */
  readonly agentpod: string
  readonly programs: { readonly podhost: string; readonly podd: string }
}

/** Why this machine cannot create one, or false. */
export function noOrdinaryUser(): string | false {
  if (process.getuid?.() !== 0) return 'only root can make a user to test with'
  for (const program of ['useradd', 'userdel', 'newuidmap', 'newgidmap']) {
    try {
      execFileSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' })
    } catch {
      return `${program} is not installed`
    }
  }
  return false
}

/** `fill` puts AgentPod into a directory that everybody can read. */
export function makeOrdinaryUser(fill: (target: string) => void = install): OrdinaryUser {
  const name = `agentpod-t${process.pid}`
  const home = mkdtempSync(join(tmpdir(), 'agentpod-user-'))
  const installed = mkdtempSync(join(tmpdir(), 'agentpod-installed-'))
  execFileSync('useradd', ['--no-create-home', '--home-dir', home, '--shell', '/bin/sh', name])
  try {
    const id = (flag: string): number => Number(execFileSync('id', [flag, name], { encoding: 'utf8' }))
    const [uid, gid] = [id('-u'), id('-g')]
    chownSync(home, uid, gid)
    chmodSync(installed, 0o755)
    fill(installed)
    return {
      name,
      uid,
      gid,
      home,
      agentpod: join(installed, 'agentpod'),
      programs: {
        podhost: join(installed, 'dist', 'bin', 'podhost'),
        podd: join(installed, 'dist', 'bin', 'podd'),
      },
      [Symbol.dispose]: () => remove(name, [home, installed]),
    }
  } catch (error) {
    remove(name, [home, installed])
    throw error
  }
}

/** The layout of a published package: no sources, and a Node that anybody may run. */
function install(target: string): void {
  mkdirSync(join(target, 'scripts'))
  cpSync(join(ROOT, 'dist'), join(target, 'dist'), { recursive: true })
  copyFileSync(join(ROOT, 'agentpod'), join(target, 'agentpod'))
  copyFileSync(join(ROOT, 'scripts', 'lib.sh'), join(target, 'scripts', 'lib.sh'))
  giveNode(target)
}

/** Node as this one, where anybody may run it. */
export function giveNode(target: string): void {
  copyFileSync(process.execPath, join(target, 'node'))
  chmodSync(join(target, 'node'), 0o755)
  mkdirSync(join(target, '.cache'), { recursive: true })
  writeFileSync(join(target, '.cache', 'node-path'), `${join(target, 'node')}\n`)
}

function remove(name: string, directories: readonly string[]): void {
  const isKnown = readFileSync('/etc/passwd', 'utf8').includes(`${name}:`)
  // podhost answers that it leaves, and then leaves.
  if (isKnown)
    execFileSync('timeout', ['20', 'sh', '-c', `while pgrep -u ${name} >/dev/null; do sleep 0.1; done`])
  if (isKnown) execFileSync('userdel', [name], { stdio: 'ignore' })
  for (const directory of directories) rmSync(directory, { recursive: true, force: true })
}
